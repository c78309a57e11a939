"""Forms are sent once, whoever presses twice; a sign-in in between leads back; other ways of asking get a page."""

import pytest

from apps.fleet.models import Node
from apps.tenants.models import APIKey

pytestmark = pytest.mark.integration


@pytest.fixture
def keys_page(yard):
    return f"/tenants/{yard.people.tenant.pk}/keys/"


def names(yard):
    return sorted(APIKey.objects.filter(tenant=yard.people.tenant).values_list("name", flat=True))


def test_a_form_that_is_sent_twice_is_done_once(yard, open_as, keys_page):
    owner, form = open_as("owner"), {"name": "pressed twice", "_once": "a"}
    assert owner.post(keys_page, form).status_code == 200
    again = owner.post(keys_page, form, follow=True)
    assert "That was sent already, and done once." in again.content.decode()
    assert names(yard).count("pressed twice") == 1


def test_the_same_page_with_other_words_in_it_is_another_form(yard, open_as, keys_page):
    owner = open_as("owner")
    for name in ("first", "second"):
        owner.post(keys_page, {"name": name, "_once": "a"})
    assert {"first", "second"} <= set(names(yard))


def test_another_page_may_do_the_same_again(yard, open_as, keys_page):
    for token in ("a", "b"):
        open_as("owner").post(keys_page, {"name": "twin", "_once": token})
    assert names(yard).count("twin") == 2


def test_what_one_person_sent_does_not_keep_another_from_it(yard, open_as, keys_page):
    for who in ("owner", "teammate"):
        open_as(who).post(keys_page, {"name": "twin", "_once": "a"})
    assert names(yard).count("twin") == 2


def test_what_was_refused_outright_may_be_sent_again(yard, open_as):
    client, path = open_as("operator"), f"/replicas/{yard.replica.pk}/act/"
    assert [client.post(path, {"act": "explode", "_once": "a"}).status_code for _ in range(2)] == [400, 400]


@pytest.mark.parametrize(
    ("act", "sent", "said"),
    [
        ("change", {"amount": "many", "burst": "7"}, "Enter a number."),
        ("raise", {"amount": "0", "hours": "2"}, "Less than the limit."),
    ],
)
def test_a_refused_change_of_a_limit_stands_open_in_its_dialog_with_what_was_typed(yard, open_as, act, sent, said):
    page = open_as("operator").post(f"/limits/{yard.limit.pk}/{act}/", sent)
    assert page.status_code == 200
    (row,) = [row for row in page.context["rows"] if row["limit"] == yard.limit]
    form = row[f"{act}_form"]
    assert (row["is_refused"], form.errors["amount"], form.data["amount"]) == (True, [said], sent["amount"])


def test_a_form_that_is_sent_after_the_session_ended_leads_back_to_its_page(open_as, keys_page):
    answer = open_as("nobody").post(keys_page, {"name": "late"}, HTTP_REFERER=f"http://testserver{keys_page}?q=a")
    assert (answer.status_code, answer["Location"]) == (302, f"/sign-in/?next={keys_page.replace('/', '%2F')}%3Fq%3Da")


def test_a_form_that_a_page_sends_by_itself_leads_to_the_sign_in_and_back(open_as, keys_page):
    answer = open_as("nobody").post(
        keys_page, {"name": "late"}, HTTP_HX_REQUEST="true", HTTP_REFERER=f"http://testserver{keys_page}"
    )
    assert (answer.status_code, answer["HX-Redirect"]) == (204, f"/sign-in/?next={keys_page.replace('/', '%2F')}")


def test_what_a_page_asks_by_itself_leads_nobody_away(open_as):
    nobody = open_as("nobody")
    assert nobody.get("/requests/newer/", HTTP_HX_REQUEST="true").status_code == 401
    assert nobody.get("/palette/", HTTP_ACCEPT="application/json").status_code == 401


@pytest.mark.parametrize("method", ["put", "patch", "delete", "options"])
def test_a_way_that_is_none_is_said_in_the_consoles_own_form(open_as, method):
    answer = getattr(open_as("operator"), method)("/fleet/")
    assert answer.status_code == 405
    assert answer["Allow"] == "GET, HEAD, POST"
    assert "That is not how this address is used" in answer.content.decode()


def test_a_page_may_be_asked_whether_it_is_there(open_as):
    operator = open_as("operator")
    assert {path: operator.head(path).status_code for path in ("/requests/", "/alerts/", "/audit/")} == {
        "/requests/": 200,
        "/alerts/": 200,
        "/audit/": 200,
    }


@pytest.mark.parametrize("path", ["/replicas/{replica}/act/", "/deployments/{deployment}/rollout/", "/fleet/act/"])
def test_an_act_that_there_is_not_does_nothing(yard, open_as, path):
    path = path.format(replica=yard.replica.pk, deployment=yard.deployment.pk)
    assert open_as("operator").post(path, {"act": "\x00"}).status_code == 400
    yard.replica.refresh_from_db()
    assert not yard.replica.is_draining


def test_several_nodes_are_seen_before_anything_is_done_to_them(yard, open_as):
    operator, form = open_as("operator"), {"act": "drain", "chosen": [str(yard.node.pk), "no id"]}
    shown = operator.post("/fleet/act/", form).content.decode()
    assert yard.node.name in shown
    assert not Node.objects.filter(is_draining=True)
    operator.post("/fleet/act/", form | {"confirmed": "1"})
    assert Node.objects.get(is_draining=True) == yard.node


def test_nobody_revokes_keys_of_others_among_several(yard, open_as, keys_page):
    for who in ("teammate", "stranger"):
        open_as(who).post(f"{keys_page}revoke/", {"chosen": str(yard.key.pk), "confirmed": "1"})
    yard.key.refresh_from_db()
    assert yard.key.revoked_at is None

"""What holds for every page: no inline code, nothing from elsewhere, unique ids, a name for every field."""

import pytest

from apps.console.urls import urlpatterns
from tests.integration.apps.console.test_who_may_open_what import GET, OPERATORS, THEIR_OWN, address
from tests.support.html import Page

pytestmark = pytest.mark.integration

NOT_PAGES = {"home", "palette", "playground_record"}
PAGES = sorted(set(GET) - NOT_PAGES)
PARTS = {"requests_newer"}


def page_of(client, name, yard):
    response = client.get(address(name, yard))
    assert response.status_code == 200
    return response


@pytest.mark.parametrize("name", PAGES)
def test_a_page_holds_no_inline_code_and_fetches_nothing_from_elsewhere(name, yard, open_as):
    response = page_of(open_as("operator"), name, yard)
    page = Page(response.content.decode())
    assert page.problems == []
    assert len(page.ids) == len(set(page.ids))
    directives = dict(part.strip().split(" ", 1) for part in response["Content-Security-Policy"].split(";"))
    assert directives["script-src"] == directives["style-src"] == "'self'"


@pytest.mark.parametrize("name", PAGES)
def test_every_field_has_a_name_that_is_read_out(name, yard, open_as):
    page = Page(page_of(open_as("operator"), name, yard).content.decode())
    assert page.nameless_fields == []


@pytest.mark.parametrize("name", sorted(set(PAGES) - PARTS))
def test_a_page_says_its_title_once_and_is_never_cached(name, yard, open_as):
    response = page_of(open_as("operator"), name, yard)
    text = response.content.decode()
    assert text.count("<h1") == 1
    assert " · Tokenyard</title>" in text
    assert response["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "query",
    [
        "tz=Mars",
        "tenant=x",
        "user=%00",
        "key=1",
        "first=0001-01-01&last=0001-01-02",
        "first=2026-01-02&last=2026-01-01",
    ],
)
@pytest.mark.parametrize("name", ["usage", "requests"])
def test_a_damaged_address_is_refused_in_words(name, query, yard, open_as):
    response = open_as("operator").get(f"{address(name, yard)}?{query}")
    assert response.status_code == 400
    assert "makes no sense" in response.content.decode()


@pytest.mark.parametrize("query", ["q=%00", "outcome=%00", "model=%00", "by=%00", "range=%00", "q=" + "x" * 3000])
@pytest.mark.parametrize("name", ["usage", "requests", "audit", "tenants"])
def test_a_value_that_matches_nothing_finds_nothing(name, query, yard, open_as):
    assert open_as("operator").get(f"{address(name, yard)}?{query}").status_code == 200


@pytest.mark.parametrize("name", sorted(name for name, statuses in GET.items() if statuses == OPERATORS))
def test_a_refusal_looks_like_the_console_and_tells_nothing(name, yard, open_as):
    text = open_as("stranger").get(address(name, yard)).content.decode()
    assert "This page is not for your role" in text
    assert "gold" not in text


@pytest.mark.parametrize("name", sorted(name for name, statuses in GET.items() if statuses == THEIR_OWN))
def test_what_belongs_to_others_is_not_there(name, yard, open_as):
    text = open_as("stranger").get(address(name, yard)).content.decode()
    assert "There is nothing at this address" in text
    assert "gold" not in text


def test_no_page_of_a_stranger_names_the_other_tenant(yard, open_as):
    client = open_as("stranger")
    for pattern in urlpatterns:
        if not pattern.pattern.converters and pattern.name not in {"sign_in", "sign_out"}:
            assert "gold" not in client.get(address(pattern.name, yard), follow=True).content.decode(), pattern.name

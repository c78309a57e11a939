"""Every change shows what it will do, does it once, and leaves a line in the audit trail."""

import csv
import io
from decimal import Decimal

import pytest

from apps.audit.models import AuditEntry
from apps.audit.services import record_change
from apps.common.actors import SYSTEM
from apps.routing.models import RouteTarget
from apps.tenants.models import APIKey, Membership, Tenant
from tests.factories.domain import NOW, make_member
from tests.factories.usage import ingest_records, make_record
from tests.integration.apps.console.test_who_may_open_what import address

pytestmark = pytest.mark.integration


def weights_of(route):
    return list(RouteTarget.objects.filter(route=route).order_by("version__label").values_list("weight", flat=True))


def weights_form(route, *weights):
    targets = RouteTarget.objects.filter(route=route).order_by("version__label")
    return {f"weight_{target.version_id}": weight for target, weight in zip(targets, weights, strict=True)}


def test_a_deployment_shows_its_share_and_leads_to_where_it_is_changed(yard, open_as):
    text = open_as("operator").get(address("deployments", yard)).content.decode()
    assert address("route", yard) in text
    assert "90 %" in text.replace('<strong class="num">', "")


def test_a_canary_is_reviewed_before_it_moves(yard, open_as):
    response = open_as("operator").post(address("route", yard), weights_form(yard.route, 70, 30))
    text = response.content.decode()
    assert "What this will do" in text
    assert "70 %" in text
    assert weights_of(yard.route) == [90, 10]


def test_a_reviewed_canary_moves_when_it_is_applied(yard, open_as):
    form = weights_form(yard.route, 70, 30) | {"confirmed": "1"}
    response = open_as("operator").post(address("route", yard), form)
    assert response.status_code == 302
    assert weights_of(yard.route) == [70, 30]
    entry = AuditEntry.objects.filter(action="route.weights_changed").first()
    assert entry.actor_name == "root"


def test_a_version_is_made_to_stand_in_on_the_routes_page(yard, open_as):
    _, canary = RouteTarget.objects.filter(route=yard.route).order_by("version__label")
    form = weights_form(yard.route, 90, 10) | {f"stands_in_{canary.version_id}": "1"}
    reviewed = open_as("operator").post(address("route", yard), form).content.decode()
    assert "as number 1" in reviewed
    assert open_as("operator").post(address("route", yard), form | {"confirmed": "1"}).status_code == 302
    canary.refresh_from_db()
    assert canary.alternative_rank == 1


@pytest.mark.parametrize("place", ["0", "-1", "x", "10000000000000000000000"])
def test_a_place_that_is_none_is_explained_not_applied(place, yard, open_as):
    first, _ = RouteTarget.objects.filter(route=yard.route).order_by("version__label")
    form = weights_form(yard.route, 90, 10) | {f"stands_in_{first.version_id}": place, "confirmed": "1"}
    response = open_as("operator").post(address("route", yard), form)
    assert (response.status_code, 'role="alert"' in response.content.decode()) == (200, True)


@pytest.mark.parametrize("weights", [(0, 0), (-1, 5), ("", 5), ("x", 5), (10**30, 5), ("\x00", 5)])
def test_weights_that_make_no_split_are_explained_not_applied(weights, yard, open_as):
    form = weights_form(yard.route, *weights) | {"confirmed": "1"}
    response = open_as("operator").post(address("route", yard), form)
    assert response.status_code == 200
    assert 'role="alert"' in response.content.decode()
    assert weights_of(yard.route) == [90, 10]


def test_the_api_line_says_what_the_review_says(yard, open_as):
    response = open_as("operator").post(address("route", yard), weights_form(yard.route, 70, 30))
    assert "&quot;weight&quot;: 70" in response.content.decode()


def test_a_key_is_shown_in_the_answer_to_its_creation_and_never_again(yard, open_as):
    client = open_as("owner")
    made = client.post(address("keys", yard), {"name": "laptop", "model": "", "lifetime_s": ""}).content.decode()
    key = APIKey.objects.get(name="laptop")
    secret = made.split('<code id="new-key-text">')[1].split("</code>")[0]
    assert secret.startswith(f"ty-{key.prefix}-")
    assert made.count(secret) == 3
    assert secret not in client.get(address("keys", yard)).content.decode()


def test_a_key_belongs_to_whom_made_it_and_ends_when_said(yard, open_as):
    open_as("owner").post(address("keys", yard), {"name": "laptop", "models": "demo-chat", "lifetime_s": "604800"})
    key = APIKey.objects.get(name="laptop")
    assert key.owner == yard.people.owner
    assert key.allowed_models == ["demo-chat"]
    assert (key.expires_at - key.created_at).days == 7


@pytest.mark.parametrize(
    "form", [{"name": ""}, {"name": "x" * 500}, {"name": "a", "models": "no-such"}, {"name": "\x00"}]
)
def test_a_key_that_cannot_be_is_explained_beside_the_field(form, yard, open_as):
    response = open_as("owner").post(address("keys", yard), {"model": "", "lifetime_s": ""} | form)
    assert response.status_code == 200
    assert 'class="field-error"' in response.content.decode()
    assert APIKey.objects.count() == 1


def test_a_viewer_makes_no_key(yard, open_as):
    assert open_as("viewer").post(address("keys", yard), {"name": "laptop"}).status_code == 403


def test_a_revoked_key_stays_listed_as_such(yard, open_as):
    client = open_as("owner")
    client.post(address("key_revoke", yard))
    assert APIKey.objects.get(pk=yard.key.pk).revoked_at is not None
    assert ">revoked</span>" in client.get(address("keys", yard)).content.decode()


def new_tenant(**changes):
    people = Tenant.objects.select_related("policy").get(name="gold").policy
    form = {"name": "acme", "service_class": people.service_class_id, "slo_profile": people.slo_profile_id}
    return form | {"weight": "1", "max_queued_requests": "100"} | changes


def test_a_new_tenant_has_its_policy_from_the_start(yard, open_as):
    response = open_as("operator").post(address("tenant_create", yard), new_tenant())
    assert response["Location"] == f"/tenants/{Tenant.objects.get(name='acme').pk}/"
    assert Tenant.objects.get(name="acme").policy.max_queued_requests == 100


@pytest.mark.parametrize(
    "changes",
    [{"name": "gold"}, {"name": "No Slug"}, {"weight": "-1"}, {"weight": "nan"}, {"max_queued_requests": 10**12}],
)
def test_a_tenant_that_cannot_be_is_explained(changes, yard, open_as):
    response = open_as("operator").post(address("tenant_create", yard), new_tenant(**changes))
    assert response.status_code == 200
    assert 'role="alert"' in response.content.decode()
    assert Tenant.objects.count() == 2


def test_a_policy_is_reviewed_before_it_is_set(yard, open_as):
    client, form = open_as("operator"), new_tenant(max_queued_requests="7")
    assert "What this will do" in client.post(address("tenant_policy", yard), form).content.decode()
    assert yard.people.tenant.policy.max_queued_requests == 1000
    client.post(address("tenant_policy", yard), form | {"confirmed": "1"})
    assert Tenant.objects.get(name="gold").policy.max_queued_requests == 7


def test_the_last_admin_stays(yard, open_as):
    owner = Membership.objects.get(user=yard.people.owner)
    open_as("operator").post(f"/tenants/{yard.people.tenant.pk}/members/{owner.pk}/remove/")
    assert Membership.objects.filter(pk=owner.pk).exists()


@pytest.mark.parametrize("who", ["owner", "operator", "finance"])
def test_the_csv_behind_the_button_and_the_page_agree_to_the_last_digit(who, yard, open_as):
    client, query = open_as(who), "?first=2026-11-29&last=2026-11-29&by=user&tz=Asia/Tokyo"
    page = client.get(address("usage", yard) + query).context
    rows = list(csv.DictReader(io.StringIO(b"".join(client.get(page["csv_url"]).streaming_content).decode())))
    assert [row["user"] for row in rows] == ["owner"]
    assert sum(int(row["output_tokens"]) for row in rows) == page["totals"].output_tokens == yard.record.output_tokens
    assert sum(Decimal(row["cost_usd"]) for row in rows) == page["totals"].cost_usd


@pytest.mark.parametrize(
    ("sort", "first"), [("output_tokens", "chatty"), ("request_count", "owner"), ("nonsense", "owner")]
)
def test_a_column_that_is_clicked_comes_first(sort, first, yard, open_as):
    chatty = make_member(yard.people.tenant, "chatty")
    facts = {"tenant_id": str(yard.people.tenant.pk), "user_id": str(chatty.pk), "output_tokens": 500}
    busy = {"tenant_id": str(yard.people.tenant.pk), "user_id": str(yard.people.owner.pk), "cost_pico_usd": 9}
    ingest_records(records=[make_record(**facts), make_record(**busy)], node_id=yard.node.pk, now=NOW)
    path = address("usage", yard) + f"?first=2026-11-29&last=2026-11-29&by=user&sort={sort}"
    assert open_as("owner").get(path).context["rows"][0]["name"] == first


def test_the_csv_of_requests_holds_the_requests_of_the_page(yard, open_as):
    client = open_as("owner")
    page = client.get(address("requests", yard) + "?first=2026-11-29&last=2026-11-29").context
    answer = client.get(address("requests_csv", yard) + "?first=2026-11-29&last=2026-11-29")
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    assert [row["record_id"] for row in rows] == [str(row["record"].record_id) for row in page["rows"]]


def test_a_playground_key_ends_by_itself_and_is_not_listed(yard, open_as):
    client = open_as("owner")
    minted = client.post(address("playground_key", yard)).json()
    key = APIKey.objects.get(pk=minted["key_id"])
    assert minted["secret"].startswith(f"ty-{key.prefix}-")
    assert minted["expires_at"] == key.expires_at.timestamp()
    assert key.prefix not in client.get(address("keys", yard)).content.decode()


def test_the_cost_of_a_playground_request_comes_from_its_record(yard, open_as):
    query = {"key_id": str(yard.key.pk), "request_id": yard.record.request_id}
    found = open_as("owner").get(address("playground_record", yard), query).json()
    assert found["url"] == f"/requests/{yard.record.record_id}/"


def test_older_requests_come_on_the_next_page_without_gap_or_repetition(yard, open_as):
    tenant = str(yard.people.tenant.pk)
    records = [make_record(tenant_id=tenant, arrived_at=NOW.timestamp() - number // 2) for number in range(70)]
    ingest_records(records=records, node_id=yard.node.pk, now=NOW)
    client, path = open_as("owner"), address("requests", yard) + "?first=2026-11-29&last=2026-11-29"
    first = client.get(path).context
    second = client.get(f"{path}&before={first['next']}").context
    seen = [str(row["record"].record_id) for page in (first, second) for row in page["rows"]]
    assert sorted(seen) == sorted([record.record_id for record in records] + [yard.record.record_id])
    assert second["next"] is None


def test_the_audit_trail_is_read_from_either_end_and_paged_in_its_order(open_as, yard):
    for number in range(60):
        record_change(actor=SYSTEM, action="node.cordoned", subject=yard.node, now=NOW, after={"number": number})
    browser = open_as("platform_admin")
    falling, rising = browser.get("/audit/?q=cordoned"), browser.get("/audit/?q=cordoned&sort=at")
    following = browser.get(f"/audit/?q=cordoned&sort=at&before={rising.context['next']}")
    in_time = [each.after["number"] for each in AuditEntry.objects.filter(action="node.cordoned").order_by("pk")]
    assert _numbers(falling) == in_time[:9:-1]
    assert _numbers(rising) + _numbers(following) == in_time
    assert (b"Oldest" in following.content, b'aria-sort="ascending"' in following.content) == (True, True)


def _numbers(answer):
    return [row["entry"].after["number"] for row in answer.context["rows"]]

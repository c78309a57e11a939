"""Limits over REST: who may set what, and that nothing leaves without an audit entry."""

from datetime import timedelta

import pytest

from apps.audit.models import AuditEntry
from apps.limits.models import Limit, RaiseRequest
from apps.limits.selectors.compiled import compile_limits
from tests.factories.domain import NOW

pytestmark = pytest.mark.integration

PER_MINUTE = {"scope": "tenant", "kind": "requests_per_minute", "amount": "60"}
EACH_USER = {"scope": "end_user", "subject": "*", "kind": "tokens_per_day", "amount": "1000", "soft_percent": 80}
LATER = (NOW + timedelta(days=3650)).isoformat()
ACTORS = ("owner", "teammate", "stranger", "operator", "finance")


@pytest.fixture
def address(people):
    return f"/api/v1/tenants/{people.tenant.pk}"


@pytest.fixture
def as_operator(people, as_user):
    return as_user(people.operator)


@pytest.fixture
def limit(as_operator, address):
    return as_operator.post(f"{address}/limits/", PER_MINUTE).json()


def statuses(people, as_user, method, path, body=None):
    return [getattr(as_user(getattr(people, who)), method)(path, body).status_code for who in ACTORS]


def test_operators_limit_a_tenant_and_its_members_see_what_is_used(people, as_user, limit, address):
    assert limit["setter"] == "operator"
    assert statuses(people, as_user, "get", f"{address}/limits/") == [200, 200, 404, 200, 200]
    shown = as_user(people.teammate).get(f"{address}/limits/").json()["results"][0]
    assert (shown["limit"]["amount"], shown["used"]) == ("60", "0")


def test_who_may_set_a_limit_for_users(people, as_user, address):
    assert statuses(people, as_user, "post", f"{address}/limits/", EACH_USER) == [201, 403, 404, 201, 403]
    assert sorted(Limit.objects.values_list("setter", flat=True)) == ["operator", "tenant"]


def test_an_admin_sets_nothing_for_the_tenant_itself(people, as_user, address):
    answer = as_user(people.owner).post(f"{address}/limits/", PER_MINUTE)
    assert answer.status_code == 400
    assert "scope" in answer.json()["fields"]


def test_who_may_change_remove_reset_and_raise_what_an_operator_set(people, as_user, limit):
    path = f"/api/v1/limits/{limit['id']}/"
    change, more = {"amount": "50"}, {"amount": "500", "until": LATER}
    assert statuses(people, as_user, "put", path, change) == [403, 403, 404, 200, 403]
    assert statuses(people, as_user, "post", f"{path}reset/") == [403, 403, 404, 200, 403]
    assert statuses(people, as_user, "post", f"{path}raise/", more) == [403, 403, 403, 200, 403]
    assert statuses(people, as_user, "delete", f"{path}raise/") == [403, 403, 403, 200, 403]
    assert statuses(people, as_user, "get", path) == [200, 200, 404, 200, 200]
    assert statuses(people, as_user, "delete", path) == [403, 403, 404, 204, 403]


def test_every_change_leaves_an_entry_that_says_what_was_and_what_is(as_operator, limit):
    path = f"/api/v1/limits/{limit['id']}/"
    as_operator.put(path, {"amount": "70", "burst": 5})
    as_operator.post(f"{path}reset/")
    as_operator.post(f"{path}raise/", {"amount": "500", "until": LATER})
    as_operator.delete(path)
    entries = list(AuditEntry.objects.filter(action__startswith="limit.").order_by("id"))
    assert [entry.action for entry in entries] == [
        "limit.set",
        "limit.set",
        "limit.reset",
        "limit.raised",
        "limit.removed",
    ]
    assert (entries[1].before["amount"], entries[1].after["amount"], entries[1].after["burst"]) == ("60", "70", 5)


def test_money_is_in_dollars_and_never_a_float(as_operator, address):
    wanted = {"scope": "tenant", "kind": "cost_per_month", "amount": "1234.567890123"}
    assert as_operator.post(f"{address}/limits/", wanted).json()["amount"] == "1234.567890123"
    assert Limit.objects.get().amount == 1_234_567_890_123


@pytest.mark.parametrize(
    "wrong",
    [
        {"amount": "1.5"},
        {"amount": "-1"},
        {"amount": "1e30"},
        {"kind": "cost_per_day", "amount": "0.0000000001"},
        {"kind": "per_year"},
        {"subject": "somebody"},
        {"burst": 0},
        {"burst": 61},
        {"kind": "tokens_per_day", "burst": 5},
        {"scope": "key"},
        {"scope": "key", "subject": "00000000-0000-7000-8000-000000000000"},
        {"scope": "member", "subject": "not an id"},
        {"scope": "end_user", "subject": "a\x00b"},
        {"soft_percent": 101},
    ],
)
def test_what_is_no_limit_is_refused_with_the_field_at_fault(as_operator, address, wrong):
    answer = as_operator.post(f"{address}/limits/", PER_MINUTE | wrong)
    assert answer.status_code == 400
    assert Limit.objects.count() == 0


def test_the_default_holds_until_a_tenant_has_its_own(people, as_user, as_operator, address):
    assert statuses(people, as_user, "post", "/api/v1/default-limits/", PER_MINUTE) == [403, 403, 403, 201, 403]
    assert {one.rules[0].amount for one in compile_limits(now=NOW)} == {60}
    as_operator.post(f"{address}/limits/", PER_MINUTE | {"amount": "5"})
    own = next(one for one in compile_limits(now=NOW) if one.tenant_id == str(people.tenant.pk))
    assert [rule.amount for rule in own.rules] == [60, 5]


def test_a_block_reaches_the_snapshot_and_goes_with_its_lifting(people, as_user, as_operator, address):
    wanted = {"scope": "end_user", "subject": "mallory", "reason": "abuse"}
    assert statuses(people, as_user, "post", f"{address}/blocks/", wanted) == [201, 403, 404, 201, 403]
    blocks = as_operator.get(f"{address}/blocks/").json()["results"]
    assert len(compile_limits(now=NOW)[0].blocks) == 2
    of_operator = next(block["id"] for block in blocks if block["setter"] == "operator")
    assert as_user(people.owner).delete(f"/api/v1/blocks/{of_operator}/").status_code == 403
    for block in blocks:
        assert as_operator.delete(f"/api/v1/blocks/{block['id']}/").status_code == 204
    assert compile_limits(now=NOW) == []


def test_a_raise_is_asked_for_by_an_admin_and_granted_by_an_operator(people, as_user, limit, address):
    wanted = {"limit_id": limit["id"], "amount": "600", "until": LATER, "reason": "the launch"}
    path = f"{address}/raise-requests/"
    assert statuses(people, as_user, "post", path, wanted)[:3] == [201, 403, 404]
    request = RaiseRequest.objects.get()
    decide = f"/api/v1/raise-requests/{request.pk}/decision/"
    assert statuses(people, as_user, "post", decide, {"is_approved": True}) == [403, 403, 403, 200, 403]
    assert as_user(people.operator).post(decide, {"is_approved": False}).status_code == 409
    raised = Limit.objects.get()
    assert (raised.amount, raised.raised_amount) == (60, 600)


def test_a_raise_of_a_default_is_one_tenants_own(people, as_user, as_operator, address):
    default = as_operator.post("/api/v1/default-limits/", PER_MINUTE).json()
    wanted = {"limit_id": default["id"], "amount": "90", "reason": "we grow"}
    request = as_user(people.owner).post(f"{address}/raise-requests/", wanted).json()
    as_operator.post(f"/api/v1/raise-requests/{request['id']}/decision/", {"is_approved": True})
    assert dict(Limit.objects.values_list("tenant_id", "amount")) == {None: 60, people.tenant.pk: 90}


def test_a_declined_raise_changes_nothing_and_says_why(people, as_user, as_operator, limit, address):
    wanted = {"limit_id": limit["id"], "amount": "600", "reason": "please"}
    request = as_user(people.owner).post(f"{address}/raise-requests/", wanted).json()
    decision = {"is_approved": False, "answer": "not before January"}
    as_operator.post(f"/api/v1/raise-requests/{request['id']}/decision/", decision)
    shown = as_user(people.owner).get(f"{address}/raise-requests/").json()["results"][0]
    assert (shown["state"], shown["answer"]) == ("declined", "not before January")
    assert Limit.objects.get().amount == 60


def test_another_tenants_limit_cannot_be_asked_to_be_raised(people, as_user, as_operator, address):
    other = as_operator.post(f"/api/v1/tenants/{people.other.pk}/limits/", PER_MINUTE).json()
    wanted = {"limit_id": other["id"], "amount": "600", "reason": "ours?"}
    assert as_user(people.owner).post(f"{address}/raise-requests/", wanted).status_code == 404


def test_who_may_set_the_time_zone_of_periods(people, as_user, address):
    path, wanted = f"{address}/limit-settings/", {"time_zone": "Europe/Berlin", "degraded": "refuse"}
    assert statuses(people, as_user, "put", path, wanted) == [403, 403, 403, 200, 403]
    assert as_user(people.operator).put(path, wanted | {"time_zone": "Mars/Olympus"}).status_code == 400
    assert as_user(people.teammate).get(path).json()["time_zone"] == "Europe/Berlin"


@pytest.mark.parametrize(("what", "body"), [("reset", {}), ("raise", {"amount": "500", "until": LATER})])
def test_what_is_done_to_a_limit_may_be_tried_first_and_may_name_the_limit_that_was_seen(
    as_operator, limit, what, body
):
    path = f"/api/v1/limits/{limit['id']}/"
    assert as_operator.post(f"{path}{what}/?dry_run=1", body).json()["dry_run"]
    seen = {"If-Match": as_operator.get(path)["ETag"]}
    assert as_operator.post(f"{path}{what}/", body, headers=seen).status_code == 200
    assert as_operator.post(f"{path}{what}/", body, headers=seen).status_code == 412

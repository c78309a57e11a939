"""Why a request ran as it did: stored once, kept for a day, shown to whom it concerns."""

from datetime import timedelta

import msgspec
import pytest
from django.urls import reverse
from rest_framework.test import APIClient

from apps.telemetry.models import RequestDecision
from apps.telemetry.services import decisions as services
from apps.telemetry.services.decisions import KEPT_FOR, forget_decisions, record_decisions
from tests.factories.domain import NOW, make_node
from tests.factories.usage import decision_on, make_record
from tests.factories.yard import make_yard

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


@pytest.fixture
def yard():
    return make_yard()


def ask(person, request_id):
    client = APIClient()
    client.force_login(person)
    return client.get(f"/api/v1/requests/{request_id}/decision")


@pytest.mark.parametrize(
    ("actor", "status"),
    [("owner", 200), ("teammate", 200), ("viewer", 200), ("stranger", 404), ("operator", 200), ("finance", 200)],
)
def test_a_decision_is_shown_to_whom_the_request_is_shown(yard, actor, status):
    assert ask(getattr(yard.people, actor), yard.record.request_id).status_code == status


def test_the_answer_says_each_step_and_each_engines_score_or_reason(yard):
    answer = ask(yard.people.owner, yard.record.request_id).json()
    assert [step["what"] for step in answer["steps"]] == ["arrived", "queued", "sent", "completed"]
    assert answer["steps"][2]["detail"] == "engine-b"
    [choice] = answer["choices"]
    assert [(row["endpoint_id"], row["score_s"], row["reason"]) for row in choice["considered"]] == [
        ("engine-a", None, "no slot"),
        ("engine-b", 0.02, ""),
    ]


@pytest.mark.parametrize("request_id", ["unknown", "a/b", "x" * 500])
def test_what_is_not_remembered_is_not_found(yard, request_id):
    answer = ask(yard.people.operator, request_id)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_an_id_that_no_text_can_be_is_refused(yard):
    answer = ask(yard.people.operator, "%00")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")


def test_a_request_id_with_slashes_is_found(yard):
    record = make_record(tenant_id=str(yard.people.tenant.pk), request_id="batch/7/decision")
    record_decisions(node_id=yard.node.pk, decisions=[decision_on(record)], now=NOW)
    assert ask(yard.people.owner, "batch/7/decision").json()["request_id"] == "batch/7/decision"


def test_of_two_tenants_with_one_request_id_each_sees_its_own(yard):
    other = make_record(tenant_id=str(yard.people.other.pk), request_id=yard.record.request_id)
    record_decisions(node_id=yard.node.pk, decisions=[decision_on(other)], now=NOW)
    assert ask(yard.people.stranger, yard.record.request_id).json()["tenant_id"] == other.tenant_id
    assert ask(yard.people.owner, yard.record.request_id).json()["tenant_id"] == yard.record.tenant_id


def test_told_twice_it_is_stored_once():
    node, told = make_node(), decision_on(make_record())
    for _ in range(2):
        record_decisions(node_id=node.pk, decisions=[told], now=NOW)
    assert RequestDecision.objects.count() == 1


def test_what_names_no_tenant_or_no_time_is_dropped_and_the_rest_is_kept():
    told = decision_on(make_record())
    broken = [
        msgspec.structs.replace(told, tenant_id="nobody"),
        msgspec.structs.replace(told, arrived_at=1e300),
        told,
    ]
    record_decisions(node_id=make_node().pk, decisions=broken, now=NOW)
    assert RequestDecision.objects.count() == 1


def test_a_decision_is_forgotten_after_its_time():
    node = make_node()
    for age in (KEPT_FOR - timedelta(minutes=1), KEPT_FOR + timedelta(minutes=1)):
        record_decisions(node_id=node.pk, decisions=[decision_on(make_record())], now=NOW - age)
    assert forget_decisions(now=NOW) == 1
    assert RequestDecision.objects.count() == 1


def test_of_too_many_the_oldest_are_forgotten(monkeypatch):
    monkeypatch.setattr(services, "MAX_KEPT", 2)
    node = make_node()
    for minute in range(4):
        now = NOW + timedelta(minutes=minute)
        record_decisions(node_id=node.pk, decisions=[decision_on(make_record())], now=now)
    forget_decisions(now=NOW + timedelta(minutes=5))
    assert [row.stored_at for row in RequestDecision.objects.order_by("stored_at")] == [
        NOW + timedelta(minutes=2),
        NOW + timedelta(minutes=3),
    ]


@pytest.mark.parametrize(("actor", "status"), [("owner", 200), ("stranger", 404), ("operator", 200)])
def test_the_page_of_a_request_says_why_it_ran_so(yard, client, actor, status):
    client.force_login(getattr(yard.people, actor))
    answer = client.get(reverse("console:record", args=[yard.record.record_id]))
    assert answer.status_code == status
    text = answer.content.decode()
    assert ("waited in the queue" in text, "no slot" in text) == (status == 200, status == 200)

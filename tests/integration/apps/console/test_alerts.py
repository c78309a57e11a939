"""What needs somebody stands on one page, once, with since when and for whom."""

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from django.utils.timezone import now

from apps.deployments.models import Replica, ReplicaEvent
from apps.fleet.models import Node
from apps.limits.models import Limit, LimitEvent
from apps.usage.models import BudgetAlert
from apps.usage.policies.forecast import month_of

pytestmark = pytest.mark.integration


def alerts_of(client, when="now"):
    return list(client.get("/alerts/").context[when])


def test_a_raise_that_waits_and_a_damaged_record_are_there(yard, open_as):
    found = alerts_of(open_as("operator"))
    (asked,) = [alert for alert in found if alert.kind == "request"]
    assert (asked.whom, asked.since) == (yard.people.tenant.name, yard.raise_request.asked_at)
    assert "1 usage record is in quarantine" in {alert.text for alert in found}


def test_a_replica_that_was_given_up_is_said_once_of_its_deployment(yard, open_as):
    Replica.objects.update(state="failed", detail="no such option", alarm="it crashed too often", has_given_up=True)
    about = [alert for alert in alerts_of(open_as("operator")) if yard.deployment.name in alert.text]
    assert [(alert.level, alert.url) for alert in about] == [("breach", f"/deployments/{yard.deployment.pk}/")]
    assert "no such option" in about[0].text


def test_what_failed_within_a_day_stands_below_and_what_is_older_does_not(yard, open_as):
    for at, detail in ((now(), "just now"), (now() - timedelta(days=2), "long ago")):
        ReplicaEvent.objects.create(replica=yard.replica, at=at, state="failed", detail=detail)
    lately = " ".join(alert.text for alert in alerts_of(open_as("operator"), "lately"))
    assert "just now" in lately
    assert "long ago" not in lately


def tell_threshold(budget, percent, **facts):
    BudgetAlert.objects.create(
        budget=budget,
        month=month_of(now(), ZoneInfo(budget.zone)).first_day,
        threshold_percent=percent,
        is_forecast=False,
        channel="mail",
        spent_usd=100,
        raised_at=now(),
        **facts,
    )


def test_a_threshold_that_a_rerating_took_back_needs_nobody(yard, open_as):
    tell_threshold(yard.budget, 100, withdrawn_at=now())
    assert [alert for alert in alerts_of(open_as("operator")) if alert.kind == "budget"] == []


def test_a_budget_that_is_passed_is_said_with_its_highest_share(yard, open_as):
    for percent in (50, 100):
        tell_threshold(yard.budget, percent)
    (alert,) = [alert for alert in alerts_of(open_as("operator")) if alert.kind == "budget"]
    assert (alert.level, alert.whom) == ("breach", yard.people.tenant.name)
    assert "100 %" in alert.text


def test_one_kind_may_be_looked_at_alone(yard, open_as):
    page = open_as("operator").get("/alerts/?kind=request")
    assert {alert.kind for alert in page.context["now"]} == {"request"}
    assert page.context["open_count"] == 1
    assert "records" in page.context["kinds"]


def test_of_a_thousand_things_the_worst_hundred_stand_there_and_all_are_counted(yard, open_as):
    Node.objects.bulk_create(
        Node(name=f"silent{number}", state="offline", token_sha256=f"{number:064d}", created_at=now())
        for number in range(150)
    )
    page = open_as("operator").get("/alerts/")
    assert (len(page.context["now"]), page.context["open_count"] > 150) == (100, True)
    overview = open_as("operator").get("/overview/")
    assert (len(overview.context["verdict"]["problems"]), overview.context["verdict"]["more"] >= 138) == (12, True)
    assert [node.state for node in overview.context["nodes"]] == ["offline"] * 10


def test_a_limit_that_was_met_is_told_as_it_was_then_and_whose_it_was(yard, open_as):
    tenant, key = yard.people.tenant, yard.key
    limit = Limit.objects.create(
        tenant=tenant,
        setter="tenant",
        scope="key",
        subject="*",
        kind="requests_per_minute",
        amount=30,
        changed_at=now(),
    )
    facts = {"limit": limit, "tenant": tenant, "what": "reached", "at": now(), "used": 3, "amount": 3}
    LimitEvent.objects.create(subject=str(key.pk), **facts)
    (met,) = [alert for alert in alerts_of(open_as("operator"), "lately") if alert.kind == "limit"]
    assert met.text == "3 requests per minute for each key: reached"
    page = open_as("operator").get(met.url).content.decode()
    assert "3 requests per minute for each key" in page
    assert f'title="{key.pk}">{key}' in page

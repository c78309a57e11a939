"""What needs somebody: read from the live frame, replicas, rollouts, budgets, limits, and records."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import Max
from django.urls import reverse

from apps.common.actors import Actor
from apps.console.policies.verdict import Verdict
from apps.console.selectors.live import read_frame, url_of
from apps.deployments.models import ReplicaEvent, ReplicaState
from apps.deployments.selectors import get_rollout, list_deployments, list_replicas
from apps.limits.models import LimitEvent
from apps.limits.selectors.limits import list_raise_requests
from apps.usage.models import BudgetAlert
from apps.usage.policies.forecast import month_of
from apps.usage.selectors.health import get_record_health, health_since

LATELY = timedelta(days=1)
SHOWN = 100
_RANK = {"breach": 0, "warning": 1, "unknown": 2}
_FULL_PERCENT = 100
_MORE_THAN_A_MONTH = timedelta(days=33)


@dataclass(frozen=True, kw_only=True)
class Alert:
    """`since` None: it is not known. `whom` are those who notice, as far as that is known."""

    level: str
    text: str
    kind: str
    url: str
    whom: str = ""
    since: datetime | None = None


def list_alerts_now(*, actor: Actor, now: datetime) -> list[Alert]:
    """The worst first, then the oldest."""
    live = list(_from_verdict(read_frame(now_s=now.timestamp()).verdict))
    # What is said of a deployment already is not said again of its rollout and each of its replicas.
    said = {alert.url for alert in live}
    found = [*live, *_of_replicas(said), *_of_rollouts(said), *_of_budgets(now), *_of_raises(actor), *_of_records(now)]
    return sorted(found, key=lambda alert: (_RANK[alert.level], alert.since or now))


def list_alerts_lately(*, now: datetime) -> list[Alert]:
    """Of the last day, over or not, the newest first."""
    found = [*_failures(now - LATELY), *_limits_met(now - LATELY), *_budgets_told(now - LATELY)]
    return sorted(found, key=lambda alert: alert.since or now, reverse=True)[:SHOWN]


def _from_verdict(verdict: Verdict) -> Iterator[Alert]:
    for problem in verdict.problems:
        yield Alert(
            level=problem.level,
            text=problem.text,
            kind="live",
            url=url_of(problem),
            whom=problem.whom,
            since=problem.since,
        )


def _of_replicas(said: set[str]) -> Iterator[Alert]:
    for replica in list_replicas().exclude(alarm=""):
        if _url_of(replica.deployment_id) in said:
            continue
        where = f" on {replica.node.name}" if replica.node else ""
        yield Alert(
            level="breach" if replica.has_given_up else "warning",
            text=": ".join(filter(None, [f"{replica.deployment.name}{where}", replica.alarm, replica.detail])),
            kind="replica",
            url=reverse("console:replica", args=[replica.pk]),
            since=replica.state_changed_at,
        )


def _of_rollouts(said: set[str]) -> Iterator[Alert]:
    for deployment in list_deployments():
        rollout = get_rollout(deployment)
        newest = next(iter(deployment.revisions.all()), None)
        if rollout.state in {"stuck", "paused"} and _url_of(deployment.pk) not in said:
            yield Alert(
                level="breach" if rollout.state == "stuck" else "warning",
                text=f"The rollout of {deployment.name} is {rollout.state}: {rollout.detail}",
                kind="rollout",
                url=_url_of(deployment.pk),
                since=newest.created_at if newest else None,
            )


def _of_budgets(now: datetime) -> Iterator[Alert]:
    """The highest threshold that this month, as the budget counts it, has passed."""
    told = BudgetAlert.objects.filter(withdrawn_at=None, month__gt=(now - _MORE_THAN_A_MONTH).date())
    rows = told.values("month", "budget_id", "budget__name", "budget__zone", "budget__tenant__name")
    for row in rows.annotate(percent=Max("threshold_percent"), last=Max("raised_at")).order_by("-last"):
        if row["month"] != month_of(now, ZoneInfo(row["budget__zone"])).first_day:
            continue
        yield Alert(
            level="breach" if row["percent"] >= _FULL_PERCENT else "warning",
            text=f"Budget {row['budget__name']} has passed, or will, {row['percent']} % of its amount this month",
            kind="budget",
            url=reverse("console:budget", args=[row["budget_id"]]),
            whom=row["budget__tenant__name"] or "every tenant",
            since=row["last"],
        )


def _of_raises(actor: Actor) -> Iterator[Alert]:
    for asked in list_raise_requests(actor=actor).filter(state="pending")[:SHOWN]:
        yield Alert(
            level="warning",
            text=f"A raise of {asked.limit} waits for an answer",
            kind="request",
            url=reverse("console:limits"),
            whom=asked.tenant.name,
            since=asked.asked_at,
        )


def _of_records(now: datetime) -> Iterator[Alert]:
    health = get_record_health(since=health_since(now))
    counted = (
        (health.missing_count, "usage record has not come", "usage records have not come"),
        (health.quarantined_count, "usage record is in quarantine", "usage records are in quarantine"),
        (health.unpriced_count, "usage record has no price yet", "usage records have no price yet"),
    )
    for count, of_one, of_many in counted:
        if count:
            text = f"{count:,} {of_one if count == 1 else of_many}"
            url = reverse("console:record_health")
            yield Alert(level="warning", text=text, kind="records", url=url, whom="finance")


def _failures(since: datetime) -> Iterator[Alert]:
    events = ReplicaEvent.objects.filter(at__gte=since, state=ReplicaState.FAILED).select_related("replica__deployment")
    for event in events.order_by("-at")[:SHOWN]:
        yield Alert(
            level="breach",
            text=f"A replica of {event.replica.deployment.name} failed: {event.detail}",
            kind="replica",
            url=reverse("console:replica", args=[event.replica_id]),
            since=event.at,
        )


def _limits_met(since: datetime) -> Iterator[Alert]:
    for event in LimitEvent.objects.filter(at__gte=since).select_related("limit", "tenant")[:SHOWN]:
        yield Alert(
            level="breach" if event.what == "reached" else "warning",
            text=str(event),
            kind="limit",
            url=reverse("console:tenant_limits", args=[event.tenant_id]),
            whom=event.tenant.name,
            since=event.at,
        )


def _budgets_told(since: datetime) -> Iterator[Alert]:
    for told in BudgetAlert.objects.filter(raised_at__gte=since).select_related("budget__tenant")[:SHOWN]:
        way = "not delivered" if told.error and not told.delivered_at else told.get_channel_display()
        yield Alert(
            level="warning",
            text=f"Budget {told.budget.name}: {told.threshold_percent} % was told ({way})",
            kind="budget",
            url=reverse("console:budget", args=[told.budget_id]),
            whom=told.budget.tenant.name if told.budget.tenant else "every tenant",
            since=told.raised_at,
        )


def _url_of(deployment_id: UUID) -> str:
    return reverse("console:deployment", args=[deployment_id])

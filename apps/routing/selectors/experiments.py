from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import QuerySet

from apps.common.errors import NotFoundError
from apps.quotas.selectors import list_service_classes
from apps.routing.models import PolicyRun
from apps.usage.selectors.records import list_records
from apps.usage.selectors.sums import UsageScope
from workers.simulator.experiments import RecordedRequest

MAX_RECORDS = 200_000


def list_runs() -> QuerySet[PolicyRun]:
    """Newest first."""
    return PolicyRun.objects.defer("recording")


def get_run(run_id: UUID) -> PolicyRun:
    run = list_runs().filter(pk=run_id).first()
    if run is None:
        raise NotFoundError("no such run of the policy lab")
    return run


def list_requests_of_day(begin: datetime, most: int = MAX_RECORDS) -> Iterator[RecordedRequest]:
    """What was asked of engines in the 24 hours from `begin`, in order of arrival; at most `most`."""
    ranks = dict(list_service_classes().values_list("name", "rank"))
    scope = UsageScope(tenant_ids=None, start=begin, end=begin + timedelta(days=1))
    rows = (
        list_records(scope=scope)
        .filter(input_tokens__gt=0)
        .order_by("arrived_at", "record_id")
        .values_list(
            "arrived_at", "input_tokens", "cached_input_tokens", "output_tokens",
            "tenant_id", "workflow_id", "end_user", "key_id", "service_class",
        )
    )  # fmt: skip
    for at, prompt_tokens, cached_tokens, output_tokens, tenant_id, *groups, service_class in rows[:most].iterator():
        yield RecordedRequest(
            at_s=(at - begin).total_seconds(),
            prompt_tokens=prompt_tokens,
            cached_tokens=cached_tokens,
            output_tokens=output_tokens,
            tenant=str(tenant_id),
            group=next((str(group) for group in groups if group), ""),
            rank=ranks.get(service_class, 0),
        )

from celery import shared_task
from django.utils import timezone

from apps.common.long_work import once_more_if_asked
from apps.common.process import process_name
from apps.limits.services.events import fetch_events
from apps.limits.services.recount import recount_limits


@shared_task(name="limits.recount")
@once_more_if_asked
def run_recount() -> None:
    recount_limits(holder=process_name(), now=timezone.now())


@shared_task(name="limits.fetch_events")
def run_fetch_events() -> None:
    fetch_events(now=timezone.now())

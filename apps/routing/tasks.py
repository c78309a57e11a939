from celery import shared_task
from django.utils import timezone

from apps.common.long_work import once_more_if_asked, one_at_a_time
from apps.common.process import process_name
from apps.routing.services.experiments import run_next
from apps.routing.services.snapshots import publish_snapshot


@shared_task(name="routing.publish")
@once_more_if_asked
def run_publish() -> None:
    publish_snapshot(holder=process_name(), now=timezone.now())


@shared_task(name="routing.run_experiments")
@one_at_a_time
def run_experiments() -> None:
    while run_next(clock=timezone.now) is not None:
        pass

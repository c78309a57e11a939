from celery import shared_task
from django.utils import timezone

from apps.fleet.services import mark_silent_nodes


@shared_task(name="fleet.check_liveness")
def run_check_liveness() -> None:
    mark_silent_nodes(now=timezone.now())

from celery import shared_task
from django.utils import timezone

from apps.fleet.services.nodes import mark_lost_nodes, mark_silent_nodes


@shared_task(name="fleet.check_liveness")
def run_check_liveness() -> None:
    now = timezone.now()
    mark_silent_nodes(now=now)
    mark_lost_nodes(now=now)

from celery import shared_task
from django.utils import timezone

from apps.common.process import process_name
from apps.fleet.services.nodes import watch_nodes


@shared_task(name="fleet.check_liveness")
def run_check_liveness() -> None:
    watch_nodes(holder=process_name(), now=timezone.now())

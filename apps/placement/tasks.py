from celery import shared_task
from django.utils import timezone

from apps.common.process import process_name
from apps.placement.services.loop import reconcile


@shared_task(name="placement.reconcile")
def run_reconcile() -> None:
    reconcile(holder=process_name(), now=timezone.now())

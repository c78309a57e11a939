from celery import shared_task
from django.utils import timezone

from apps.common.process import process_name
from apps.common.tasks_by_name import enqueue_soon
from apps.placement.services.loop import reconcile


@shared_task(name="placement.reconcile")
def run_reconcile() -> None:
    """One that comes while another turn is under way may be about what that one has read already: it comes again."""
    if not reconcile(holder=process_name(), now=timezone.now()):
        enqueue_soon("placement.reconcile")

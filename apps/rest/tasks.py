from celery import shared_task
from django.utils import timezone

from apps.rest.services.forgetting import forget_old_answers, forget_old_changes


@shared_task(name="rest.forget")
def run_forget() -> None:
    now = timezone.now()
    forget_old_changes(now=now)
    forget_old_answers(now=now)

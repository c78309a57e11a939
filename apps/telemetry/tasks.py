from celery import shared_task
from django.utils import timezone

from apps.telemetry.services.decisions import forget_decisions


@shared_task(name="telemetry.forget_decisions")
def run_forget_decisions() -> None:
    forget_decisions(now=timezone.now())

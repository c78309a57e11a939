from celery import shared_task
from django.utils import timezone

from apps.telemetry.services.decisions import forget_decisions
from apps.telemetry.services.prompts import forget_old_prompts


@shared_task(name="telemetry.forget_decisions")
def run_forget_decisions() -> None:
    forget_decisions(now=timezone.now())


@shared_task(name="telemetry.forget_prompts")
def run_forget_prompts() -> None:
    forget_old_prompts(now=timezone.now())

from celery import shared_task
from django.utils import timezone

from apps.identity.services.attempts import forget_old_attempts
from apps.identity.services.sessions import forget_old_sessions


@shared_task(name="identity.forget_old")
def run_forget_old() -> None:
    now = timezone.now()
    forget_old_attempts(now=now)
    forget_old_sessions(now=now)

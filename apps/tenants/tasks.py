from celery import shared_task
from django.utils import timezone

from apps.tenants.services import forget_expired_playground_keys


@shared_task(name="tenants.forget_expired_keys")
def run_forget_expired_keys() -> None:
    forget_expired_playground_keys(now=timezone.now())

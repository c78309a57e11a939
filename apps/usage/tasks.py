from celery import shared_task
from django.utils import timezone

from apps.usage.services.partitions import make_partitions


@shared_task(name="usage.make_partitions")
def run_make_partitions() -> None:
    make_partitions(now=timezone.now())

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from apps.usage.services.partitions import drop_old_partitions, make_partitions
from apps.usage.services.rating import price_unpriced
from apps.usage.services.rerating import run_reratings


@shared_task(name="usage.make_partitions")
def run_make_partitions() -> None:
    make_partitions(now=timezone.now())


@shared_task(name="usage.drop_old_partitions")
def run_drop_old_partitions() -> None:
    drop_old_partitions(now=timezone.now(), keep_days=settings.USAGE_KEEP_DAYS)


@shared_task(name="usage.price_unpriced")
def run_price_unpriced() -> None:
    price_unpriced()


@shared_task(name="usage.rerate")
def run_rerate() -> None:
    run_reratings(now=timezone.now())

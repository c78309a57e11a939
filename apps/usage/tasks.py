from celery import shared_task
from django.conf import settings
from django.utils import timezone

from apps.common.long_work import one_at_a_time
from apps.usage.services.accelerators import meter_accelerators
from apps.usage.services.alerts import deliver_alerts
from apps.usage.services.budgets import watch_budgets
from apps.usage.services.partitions import drop_old_partitions, make_partitions
from apps.usage.services.rating import price_unpriced
from apps.usage.services.rerating import run_reratings
from apps.usage.services.sharing import share_engine_time


@shared_task(name="usage.make_partitions")
def run_make_partitions() -> None:
    make_partitions(now=timezone.now())


@shared_task(name="usage.drop_old_partitions")
@one_at_a_time
def run_drop_old_partitions() -> None:
    drop_old_partitions(now=timezone.now(), keep_days=settings.USAGE_KEEP_DAYS)


@shared_task(name="usage.price_unpriced")
@one_at_a_time
def run_price_unpriced() -> None:
    price_unpriced()


@shared_task(name="usage.rerate")
@one_at_a_time
def run_rerate() -> None:
    run_reratings(now=timezone.now())


@shared_task(name="usage.meter_accelerators")
def run_meter_accelerators() -> None:
    meter_accelerators(now=timezone.now())


@shared_task(name="usage.share_engine_time")
@one_at_a_time
def run_share_engine_time() -> None:
    share_engine_time(now=timezone.now())


@shared_task(name="usage.watch_budgets")
@one_at_a_time
def run_watch_budgets() -> None:
    watch_budgets(now=timezone.now())
    deliver_alerts(clock=timezone.now)

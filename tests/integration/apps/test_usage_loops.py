"""The control loops of usage: each is on the clock by its name, and runs on an empty database as on a full one."""

import pytest
from django.conf import settings
from django.db import connection

from apps.common.long_work import PATIENCE, patient
from apps.fleet.models import Accelerator
from apps.usage import tasks
from apps.usage.models import AcceleratorClock, EngineShare
from tests.factories.yard import make_yard

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

LOOPS = (
    tasks.run_make_partitions,
    tasks.run_drop_old_partitions,
    tasks.run_price_unpriced,
    tasks.run_rerate,
    tasks.run_meter_accelerators,
    tasks.run_share_engine_time,
    tasks.run_watch_budgets,
)


def test_every_loop_is_on_the_clock():
    on_the_clock = {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}
    assert {loop.name for loop in LOOPS} <= on_the_clock


def test_every_loop_runs_on_an_empty_database(valkey):
    for loop in LOOPS:
        loop()
    assert (EngineShare.objects.count(), AcceleratorClock.objects.count()) == (0, 0)


def test_every_loop_runs_twice_on_a_yard_and_the_second_time_changes_nothing(valkey):
    make_yard()
    clocks = []
    for _ in range(2):
        for loop in LOOPS:
            loop()
        clocks.append(list(AcceleratorClock.objects.values_list("pk", flat=True)))
    assert len(clocks[0]) == Accelerator.objects.count() == 1
    assert clocks[1] == clocks[0]


def statement_timeout():
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        return cursor.fetchone()[0]


def test_what_nobody_waits_for_is_not_cut_off_as_what_somebody_waits_for():
    @patient
    def fail():
        timeouts.append(statement_timeout())
        raise OSError

    timeouts = [statement_timeout()]
    with pytest.raises(OSError, match=r"^$"):
        fail()
    assert [*timeouts, statement_timeout()] == ["30s", PATIENCE, "30s"]

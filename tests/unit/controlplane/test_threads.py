"""However long the longest loops take, there is a thread for a key that is revoked."""

import ast
from pathlib import Path

import pytest
from django.conf import settings

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
# What comes often, and what somebody waits for: none of it may take minutes.
AT_ONCE = {"routing.publish", "placement.reconcile", "fleet.check_liveness", "limits.fetch_events"}


def loops():
    """Each loop's name, with the decorators of its task."""
    for path in ROOT.glob("apps/*/tasks.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                task, *others = node.decorator_list
                yield task.keywords[0].value.value, {other.id for other in others}


def test_there_are_more_threads_than_loops_that_may_take_long_with_room_for_the_others():
    alone = {"one_at_a_time", "once_more_if_asked"}
    long_ones = {name for name, decorators in loops() if decorators & alone} - {"routing.publish"}
    assert {"usage.rerate", "routing.run_experiments", "limits.recount", "usage.watch_budgets"} <= long_ones
    assert not long_ones & AT_ONCE
    assert len(long_ones) + len(AT_ONCE) <= settings.CELERY_WORKER_CONCURRENCY

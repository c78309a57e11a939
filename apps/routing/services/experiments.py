"""The policy lab: what is tried, one run at a time, in a process of its own."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from threading import Timer
from typing import IO, Any

import msgspec
from django.conf import settings
from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.errors import InvalidInputError
from apps.common.tasks_by_name import enqueue_on_commit
from apps.routing.models import PolicyRun
from apps.routing.selectors.experiments import list_requests_of_day
from workers.simulator.experiments import RECORDS, Experiment, ExperimentError, check

RECORDS_PREFIX = "usage:"
KEPT_RUNS = 200
LOST_AFTER = timedelta(seconds=90)
MAX_RUN_S = 1800
Clock = Callable[[], datetime]


def request_run(*, actor: Actor, experiment: Experiment, now: datetime) -> PolicyRun:
    """Puts it in line; raises InvalidInputError for what could not be run."""
    check_experiment(experiment)
    with transaction.atomic():
        run = PolicyRun.objects.create(
            created_at=now, created_by=actor.name, experiment=msgspec.to_builtins(experiment), touched_at=now
        )
        record_change(actor=actor, action="policy_run.requested", subject=run, now=now, after=run.experiment)
        old = PolicyRun.objects.values_list("pk", flat=True)[KEPT_RUNS:]
        PolicyRun.objects.filter(pk__in=list(old)).delete()
        enqueue_on_commit("routing.run_experiments")
    return run


def check_experiment(experiment: Experiment) -> None:
    """Without reading all the records of a day."""
    begin = _day_of(experiment)
    if begin is not None:
        experiment = msgspec.structs.replace(
            experiment, trace=RECORDS, requests=tuple(list_requests_of_day(begin, most=1))
        )
    try:
        check(experiment)
    except ExperimentError as error:
        raise InvalidInputError(str(error)) from error


def with_records(experiment: Experiment) -> Experiment:
    """`usage:2026-11-28` stands for the usage records of that day, in UTC."""
    begin = _day_of(experiment)
    if begin is None:
        return experiment
    return msgspec.structs.replace(experiment, trace=RECORDS, requests=tuple(list_requests_of_day(begin)))


def _day_of(experiment: Experiment) -> datetime | None:
    if not experiment.trace.startswith(RECORDS_PREFIX):
        return None
    try:
        day = date.fromisoformat(experiment.trace.removeprefix(RECORDS_PREFIX))
    except ValueError as error:
        raise InvalidInputError("Name a day as usage:2026-11-28.", fields={"day": "is not a day"}) from error
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def run_next(*, clock: Clock) -> PolicyRun | None:
    """Plays the oldest that waits, unless one runs; what was lost with its controller is given up."""
    run = _claim(clock())
    if run is None:
        return None
    try:
        experiment = with_records(msgspec.convert(run.experiment, type=Experiment))
        for line in _play(experiment):
            _note(run, line, clock())
    except (InvalidInputError, msgspec.ValidationError, OSError) as error:
        _fail(run, str(error), clock())
    if not run.is_over:
        _fail(run, "The simulator ended without a result; the log of the controller says why.", clock())
    return run


@transaction.atomic
def _claim(now: datetime) -> PolicyRun | None:
    running = PolicyRun.objects.select_for_update().filter(state=PolicyRun.State.RUNNING)
    for lost in running.filter(touched_at__lt=now - LOST_AFTER):
        _fail(lost, "Whoever ran it is gone; start it again.", now)
    if running.exists():
        return None
    run = PolicyRun.objects.select_for_update(skip_locked=True).filter(state=PolicyRun.State.QUEUED).last()
    if run is not None:
        run.state, run.touched_at = PolicyRun.State.RUNNING, now
        run.save(update_fields=["state", "touched_at"])
    return run


def _note(run: PolicyRun, line: dict[str, Any], now: datetime) -> None:
    run.touched_at = now
    if error := line.get("error"):
        _fail(run, error, now)
        return
    if (summary := line.get("summary")) is not None:
        run.summaries = [*run.summaries, summary]
    if (progress := line.get("progress")) is not None:
        run.progress, run.step = min(1.0, progress), line.get("text", "")[:200]
    if run.progress == 1.0:
        run.state = PolicyRun.State.DONE
    run.save()


def _fail(run: PolicyRun, error: str, now: datetime) -> None:
    run.state, run.error, run.touched_at = PolicyRun.State.FAILED, error[:500], now
    run.save()


def _play(experiment: Experiment) -> Iterator[dict[str, Any]]:
    """The lines that `python -m workers.simulator` prints. It keeps no loop of the controller from its processor."""
    process = subprocess.Popen(
        [sys.executable, "-m", "workers.simulator"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=settings.ROOT
    )
    limit = Timer(MAX_RUN_S, process.kill)
    limit.start()
    try:
        yield from _lines_of(process.stdin, process.stdout, experiment)
    finally:
        limit.cancel()
        process.kill()
        process.wait()


def _lines_of(written: IO[bytes] | None, printed: IO[bytes] | None, experiment: Experiment) -> Iterator[dict[str, Any]]:
    if written is None or printed is None:
        return
    with written, printed:
        written.write(msgspec.json.encode(experiment))
        written.close()
        for line in printed:
            yield msgspec.json.decode(line, type=dict[str, Any])

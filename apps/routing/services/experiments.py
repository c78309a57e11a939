"""The policy lab: what is tried, one run at a time, in a process of its own."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
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
from apps.routing.selectors.experiments import MAX_RECORDS, list_requests_of_day
from workers.simulator.experiments import (
    RECORDS,
    Experiment,
    ExperimentError,
    check,
    name_of_upload,
    pack_upload,
    read_through,
)

RECORDS_PREFIX = "usage:"
KEPT_RUNS = 200
LOST_AFTER = timedelta(seconds=90)
MAX_RUN_S = 1800
Clock = Callable[[], datetime]


def request_run(*, actor: Actor, experiment: Experiment, now: datetime, recording: bytes | None = None) -> PolicyRun:
    """Puts it in line; raises InvalidInputError for what could not be run.

    `recording` is a trace that came with it, for experiments whose trace is UPLOAD.
    """
    packed = None if recording is None else _packed(recording)
    with _at_hand(experiment, packed) as checked:
        check_experiment(checked)
    with transaction.atomic():
        run = PolicyRun.objects.create(
            created_at=now,
            created_by=actor.name,
            experiment=msgspec.to_builtins(experiment),
            recording=packed,
            touched_at=now,
        )
        record_change(actor=actor, action="policy_run.requested", subject=run, now=now, after=run.experiment)
        old = PolicyRun.objects.values_list("pk", flat=True)[KEPT_RUNS:]
        PolicyRun.objects.filter(pk__in=list(old)).delete()
        enqueue_on_commit("routing.run_experiments")
    return run


def _packed(recording: bytes) -> bytes:
    try:
        return pack_upload(recording)
    except ValueError as error:
        raise InvalidInputError(str(error), fields={"recording": str(error)}) from error


@contextmanager
def _at_hand(experiment: Experiment, packed: bytes | None) -> Iterator[Experiment]:
    """The trace that came with it lies in a file meanwhile, read through."""
    if packed is None:
        yield experiment
        return
    with TemporaryDirectory() as directory:
        file = Path(directory, name_of_upload(packed))
        file.write_bytes(packed)
        try:
            requests = read_through(str(file))
        except ExperimentError as error:
            message = "Neither CSV with t_s,in,out nor JSON lines with t_s, in, out and h."
            raise InvalidInputError(message, fields={"recording": message}) from error
        if not 0 < requests <= MAX_RECORDS:
            message = f"The trace has {requests:,} requests; between 1 and {MAX_RECORDS:,} can be played."
            raise InvalidInputError(message, fields={"recording": message})
        yield msgspec.structs.replace(experiment, trace=str(file))


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
        with _at_hand(experiment, None if run.recording is None else bytes(run.recording)) as playable:
            for line in _play(playable):
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
        run.state, run.recording = PolicyRun.State.DONE, None
    run.save()


def _fail(run: PolicyRun, error: str, now: datetime) -> None:
    run.state, run.error, run.touched_at, run.recording = PolicyRun.State.FAILED, error[:500], now, None
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

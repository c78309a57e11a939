"""Makes an environment: one process at a time, in its final place, and marked as whole at the very end."""

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.contracts.layout import write_whole
from workers.engines.environments.locate import MARKER, environment_path, is_complete, python_of
from workers.engines.environments.recipes import Recipe, Step

Announce = Callable[[str], None]

_STEP_TIMEOUT_S = 3600


class InstallFailedError(Exception):
    """A step failed; what was made so far is gone."""


def install(recipe: Recipe, cache: Path, announce: Announce) -> Path:
    """The environment's directory, made now unless it is there. Raises InstallFailedError."""
    environment = environment_path(recipe, cache)
    if is_complete(environment):
        return environment
    environment.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(environment.with_suffix(".lock"), announce):
        if not is_complete(environment):
            _make(recipe, environment, announce)
    return environment


@contextmanager
def _only_one(path: Path, announce: Announce) -> Iterator[None]:
    """The lock goes with its process, so one that died never blocks the next."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            announce("another process is installing this; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(recipe: Recipe, environment: Path, announce: Announce) -> None:
    announce(f"installing {recipe.title}: {recipe.download} to download, {recipe.duration}, once, into {environment}")
    shutil.rmtree(environment, ignore_errors=True)
    try:
        _run([sys.executable, "-m", "venv", str(environment)])
        steps = recipe.steps(environment)
        for number, step in enumerate(steps, start=1):
            announce(f"step {number} of {len(steps)}")
            _take(step, python_of(environment), announce)
    except BaseException:
        shutil.rmtree(environment, ignore_errors=True)
        raise
    write_whole(environment / MARKER, b"", mode=0o644)
    announce(f"installed {recipe.title}")


def _take(step: Step, python: Path, announce: Announce) -> None:
    try:
        _run([str(python), *step.argv])
    except InstallFailedError:
        if step.fallback is None:
            raise
        announce("not to be had here; trying the next best")
        _run([str(python), *step.fallback])


def _run(argv: list[str]) -> None:
    """Output goes to the terminal: it is the progress."""
    try:
        finished = subprocess.run(argv, check=False, timeout=_STEP_TIMEOUT_S, stdout=sys.stderr)
    except subprocess.TimeoutExpired as error:
        raise InstallFailedError(f"took more than {_STEP_TIMEOUT_S} s: {' '.join(argv)}") from error
    if finished.returncode:
        raise InstallFailedError(f"failed with status {finished.returncode}: {' '.join(argv)}")

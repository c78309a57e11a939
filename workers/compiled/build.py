"""Builds the compiled modules: in a copy of the sources, in its final place, marked as whole at the very end."""

import fcntl
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from workers.compiled.constants import fix_constants
from workers.compiled.finder import MARKER
from workers.compiled.selection import ROOT, build_directory, build_key, list_sources, module_name

Announce = Callable[[str], None]

_TIMEOUT_S = 900
_KEPT_BUILDS = 3


class BuildFailedError(Exception):
    """What a compiler said, or why there is none."""


def build(cache: Path, announce: Announce, root: Path = ROOT) -> Path:
    """The directory of the build for these sources, made now unless it is there. Raises BuildFailedError."""
    directory = build_directory(cache, root)
    if (directory / MARKER).exists():
        return directory
    _require_compiler()
    directory.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(directory.parent / ".lock"):
        if not (directory / MARKER).exists():
            announce("compiling the gateway's hot path: one to four minutes, once for these sources")
            _make(directory, root)
            _forget_old(directory.parent)
    return directory


def _require_compiler() -> None:
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        raise BuildFailedError(f"there is no C compiler here ({compiler})")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        raise BuildFailedError("Python's headers are not installed (on Debian: python3-dev)")


def _make(directory: Path, root: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    sources = list_sources(root)
    try:
        with TemporaryDirectory() as workplace:
            # A copy, because mypy would take up the project's own configuration, which wants the control plane.
            shutil.copytree(root / "workers", Path(workplace, "workers"), ignore=shutil.ignore_patterns("__pycache__"))
            _require_same(directory, Path(workplace))
            for source in sources:
                copy = Path(workplace, source)
                copy.write_text(fix_constants(copy.read_text()))
            _run("steps", [str(directory), *map(str, sources)], Path(workplace))
        _run("trial", [str(directory), *map(module_name, sources)], root)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    (directory / MARKER).touch()


def _require_same(directory: Path, copy: Path) -> None:
    """Somebody may have saved a module after the key was taken: it must not be kept under the key of the old one."""
    if build_key(copy) != directory.name:
        raise BuildFailedError("the sources changed while they were copied; run it again")


def _run(part: str, arguments: list[str], workplace: Path) -> None:
    command = [sys.executable, "-m", f"workers.compiled.{part}", *arguments]
    try:
        done = subprocess.run(command, cwd=workplace, check=False, capture_output=True, text=True, timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise BuildFailedError(f"it took more than {_TIMEOUT_S} s") from error
    if done.returncode:
        raise BuildFailedError((done.stdout + done.stderr)[-4000:])


def _forget_old(builds: Path) -> None:
    """All but the newest few: each change of the sources makes one."""
    whole = sorted(builds.glob(f"*/{MARKER}"), key=lambda marker: marker.stat().st_mtime, reverse=True)
    for marker in whole[_KEPT_BUILDS:]:
        shutil.rmtree(marker.parent, ignore_errors=True)


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

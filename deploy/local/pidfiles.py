"""One file per started process, so that the next supervisor can end what a killed one left."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from deploy.local.layout import write_private
from workers.agent.engines.identity import ProcessIdentity, identify

_SUFFIX = ".pid"


def record(directory: Path, name: str, identity: ProcessIdentity) -> None:
    write_private(
        directory / f"{name}{_SUFFIX}", json.dumps({"pid": identity.pid, "start_ticks": identity.start_ticks})
    )


def erase(directory: Path, name: str) -> None:
    (directory / f"{name}{_SUFFIX}").unlink(missing_ok=True)


def recorded(directory: Path) -> Iterator[tuple[str, ProcessIdentity]]:
    """Unreadable files count as none: they were cut short before the process was of any use."""
    for path in sorted(directory.glob(f"*{_SUFFIX}")):
        with suppress(ValueError, KeyError, TypeError):
            content = json.loads(path.read_text())
            yield path.stem, ProcessIdentity(int(content["pid"]), int(content["start_ticks"]))


def postmaster(data: Path) -> ProcessIdentity | None:
    """The Postgres that runs on `data`, known by its working directory."""
    return _working_in(data, _first_number(data / "postmaster.pid"))


def valkey_server(home: Path) -> ProcessIdentity | None:
    return _working_in(home / "data", _first_number(home / "valkey.pid"))


def _working_in(directory: Path, pid: int | None) -> ProcessIdentity | None:
    if pid is None:
        return None
    with suppress(OSError):
        if Path(f"/proc/{pid}/cwd").samefile(directory):
            return identify(pid)
    return None


def _first_number(path: Path) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        return int(path.read_text().split()[0])
    return None

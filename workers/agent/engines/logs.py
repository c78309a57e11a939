"""What engines say: logs/engine-<replica id>.log, one over all starts of a replica, and .log.1 with what came before.

Engines write by themselves, for months if they live so long. A log that has grown too long is cut while it is written
to: they append, so that the next line comes after what is left. A line that is written in that very moment is lost.
"""

import os
import re
import shutil
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from workers.contracts.log_lines import without_secrets

_PREFIX, _SUFFIX, _BEFORE = "engine-", ".log", ".log.1"
_MAX_LOG_BYTES = 10 * 1024 * 1024
_TAIL_BYTES = 8192
# Of replicas that are gone: somebody may want to know what the last ones died of.
_MOST_LOGS_OF_OTHERS = 20
_LONGEST_CAUSE = 200
_NAMES_AN_ERROR = re.compile(r"(?i)\b\w*(error|exception|fatal|panic|abort\w*|killed)\b")
# How vLLM's parent ends when its child has said why, and pydantic what it refuses.
_POINTS_ELSEWHERE = re.compile(r"(?i)root cause above|for further information visit")


class EngineLogs:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def open(self, replica_id: str) -> BinaryIO:
        path = self._path(replica_id)
        self._cut(path)
        return path.open("ab")

    def tail(self, replica_id: str, lines: int) -> list[str]:
        return _lines(_read_tail(self._path(replica_id)))[-lines:]

    def cause(self, replica_id: str, began_at: int) -> str:
        """Of what was said since the log was so long; all of it where the log was cut since."""
        path = self._path(replica_id)
        with suppress(OSError):
            size = path.stat().st_size
            return telling_line(_lines(_read_tail(path, began_at if began_at <= size else 0)))
        return ""

    def bound(self, wanted: AbstractSet[str]) -> None:
        """Raises OSError. Everybody's log that lies here is kept short, and few of replicas that are gone are kept."""
        logs = list(self._directory.glob(f"*{_SUFFIX}"))
        for path in logs:
            self._cut(path)
        kept = {self._path(replica_id) for replica_id in wanted}
        others = [path for path in logs if path.name.startswith(_PREFIX) and path not in kept]
        if len(others) > _MOST_LOGS_OF_OTHERS:
            for path in sorted(others, key=lambda each: each.stat().st_mtime)[:-_MOST_LOGS_OF_OTHERS]:
                path.unlink()
                path.with_suffix(_BEFORE).unlink(missing_ok=True)

    def _cut(self, path: Path) -> None:
        with suppress(FileNotFoundError):
            if path.stat().st_size > _MAX_LOG_BYTES:
                tail = _read_tail(path)
                _put_aside(path, path.with_suffix(_BEFORE))
                os.truncate(path, 0)
                with path.open("ab") as file:
                    file.write(tail)

    def _path(self, replica_id: str) -> Path:
        return self._directory / f"{_PREFIX}{replica_id}{_SUFFIX}"


def telling_line(lines: Sequence[str]) -> str:
    """The last line that names an error, else the last that says anything: what an operator would look for."""
    said = [line for line in (_plain(line) for line in lines) if line and not _POINTS_ELSEWHERE.search(line)]
    errors = [line for line in said if _NAMES_AN_ERROR.search(line)]
    return without_secrets((errors or said or [""])[-1])[:_LONGEST_CAUSE]


def _plain(line: str) -> str:
    return "".join(each if each.isprintable() else " " for each in line).strip()


def _lines(text: bytes) -> list[str]:
    return text.decode(errors="replace").splitlines()


def _read_tail(path: Path, began_at: int = 0) -> bytes:
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(began_at, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return file.read()
    return b""


def _put_aside(path: Path, before: Path) -> None:
    """The newest part of it. On a full disk it is gone: the room is needed more."""
    before.unlink(missing_ok=True)
    try:
        with path.open("rb") as source, before.open("wb") as target:
            source.seek(-_MAX_LOG_BYTES, os.SEEK_END)
            shutil.copyfileobj(source, target)
    except OSError:
        before.unlink(missing_ok=True)

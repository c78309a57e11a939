"""How often engines have crashed, for an agent that comes after this one: what was given up stays so."""

import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from workers.agent.engines.memory import ReplicaMemory
from workers.contracts.layout import write_whole

log = logging.getLogger(__name__)


class _Crashes(Struct, frozen=True, kw_only=True):
    """Without times: the clock that they are of begins anew with the machine."""

    restarts: int = 0
    crashes_in_a_row: int = 0
    given_up_hash: str = ""
    problem: str = ""


class CrashFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: dict[str, _Crashes] = {}

    def recall(self) -> dict[str, ReplicaMemory]:
        try:
            self._written = msgspec.json.decode(self._path.read_bytes(), type=dict[str, _Crashes])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            log.warning("%s is passed over: %s", self._path, error)
        return {replica_id: _memory_of(each) for replica_id, each in self._written.items()}

    def keep(self, memories: Mapping[str, ReplicaMemory]) -> None:
        """Raises OSError; what was not written is tried again with the next call."""
        crashes = {replica_id: _crashes_of(memory) for replica_id, memory in memories.items() if memory.restarts}
        if crashes != self._written:
            write_whole(self._path, msgspec.json.encode(crashes))
            self._written = crashes


def read_given_up(path: Path) -> dict[str, str]:
    """Of each replica that its agent does not start again by itself: what it ended of."""
    try:
        written = msgspec.json.decode(path.read_bytes(), type=dict[str, _Crashes])
    except (OSError, msgspec.DecodeError):
        return {}
    return {replica_id: crashes.problem for replica_id, crashes in written.items() if crashes.given_up_hash}


def _crashes_of(memory: ReplicaMemory) -> _Crashes:
    return _Crashes(
        restarts=memory.restarts,
        crashes_in_a_row=memory.crashes_in_a_row,
        given_up_hash=memory.given_up_hash,
        problem=memory.problem if memory.crashes_in_a_row else "",
    )


def _memory_of(crashes: _Crashes) -> ReplicaMemory:
    return ReplicaMemory(
        restarts=crashes.restarts,
        crashes_in_a_row=crashes.crashes_in_a_row,
        given_up_hash=crashes.given_up_hash,
        problem=crashes.problem if crashes.given_up_hash else "",
    )

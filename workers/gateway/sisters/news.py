"""The decisions that several processes tell of, numbered as those of one."""

from collections import deque

from workers.contracts.decisions import DecisionFile, RequestDecision
from workers.gateway.driving.explaining import MAX_KEPT


class News:
    def __init__(self, boot_id: str) -> None:
        self._boot_id = boot_id
        self._kept: deque[RequestDecision] = deque(maxlen=MAX_KEPT)
        self._count = 0
        self._taken: dict[int, tuple[str, int]] = {}
        self._has_new = False

    def add(self, number: int, told: DecisionFile) -> None:
        """Those of a process that were not taken before."""
        boot_id, taken = self._taken.get(number, ("", 0))
        new = told.decisions[max(0, taken - told.first) if boot_id == told.boot_id else 0 :]
        self._taken[number] = (told.boot_id, told.first + len(told.decisions))
        self._kept.extend(new)
        self._count += len(new)
        self._has_new = self._has_new or bool(new)

    def take(self) -> DecisionFile | None:
        """None when there is nothing new since."""
        if not self._has_new:
            return None
        self._has_new = False
        return DecisionFile(boot_id=self._boot_id, first=self._count - len(self._kept), decisions=list(self._kept))

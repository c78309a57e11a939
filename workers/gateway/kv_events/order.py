"""An engine's batches in the order in which it numbered them, whether they came at once or were asked for again."""

from collections.abc import Iterator
from hashlib import blake2b

# Batches that came ahead of one that is missing.
MAX_AHEAD = 10_000


class RestartedError(Exception):
    """The numbers began again: it is another engine, or one that has forgotten all."""


class Order:
    """`is_complete`: everything since the engine started has been seen, or since it cleared its cache."""

    def __init__(self, next_number: int = 0, last: bytes = b"") -> None:
        """`last` is the digest of the batch before `next_number`, as `last_digest` gives it."""
        self.next_number = next_number
        self.last_digest = last
        self.is_complete = True
        self.gaps = 0
        self._ahead: dict[int, bytes] = {}
        self._asked_number = 0
        self._asked_last = b""
        self._is_last_seen = True

    @property
    def has_gap(self) -> bool:
        return bool(self._ahead)

    def ask_from(self) -> int:
        """The last one is asked for again: whether it is the same tells whether the engine is."""
        self._asked_number, self._asked_last = self.next_number, self.last_digest
        self._is_last_seen = self.next_number == 0
        return max(0, self.next_number - 1)

    def published(self, number: int, payload: bytes) -> Iterator[bytes]:
        """What may be applied now. Raises RestartedError."""
        if number < self.next_number:
            raise RestartedError
        return self._take(number, payload)

    def replayed(self, number: int, payload: bytes) -> Iterator[bytes]:
        """The same for one that was asked for."""
        if number == self._asked_number - 1:
            if _digest(payload) != self._asked_last:
                raise RestartedError
            self._is_last_seen = True
        return self._take(number, payload)

    def replay_ended(self) -> bool:
        """Whether to ask again. What the engine has not kept is given up, and then not everything has been seen.

        Raises RestartedError when it has come to none as high as the last.
        """
        if not self._ahead:
            if not self._is_last_seen:
                raise RestartedError
            return False
        if self.next_number > self._asked_number:
            return True
        self.gaps += 1
        self.is_complete = False
        self.next_number = min(self._ahead)
        return False

    def drain(self) -> Iterator[bytes]:
        while self.next_number in self._ahead:
            payload = self._ahead.pop(self.next_number)
            self.next_number += 1
            self.last_digest = _digest(payload)
            yield payload

    def _take(self, number: int, payload: bytes) -> Iterator[bytes]:
        if number >= self.next_number and len(self._ahead) < MAX_AHEAD:
            self._ahead[number] = payload
        return self.drain()


def _digest(payload: bytes) -> bytes:
    return blake2b(payload, digest_size=16).digest()

"""The connections of clients: how many there may be, and how many of one key."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workers.gateway.http.server import ClientConnection

MAX_CONNECTIONS = 50_000
MAX_CONNECTIONS_PER_KEY = 20_000
CROWDED_SHARE = 64


class Connections:
    """All that are open. One belongs to the key that asked on it last."""

    def __init__(
        self, max_connections: int = MAX_CONNECTIONS, max_connections_per_key: int = MAX_CONNECTIONS_PER_KEY
    ) -> None:
        self._open: set[ClientConnection] = set()
        self._max_connections = max_connections
        self._max_per_key = max_connections_per_key
        self._of_key: Counter[str] = Counter()
        self._elsewhere = 0
        self._elsewhere_of_key: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> "Iterator[ClientConnection]":
        return iter(self._open)

    def add(self, connection: "ClientConnection") -> None:
        self._open.add(connection)

    def is_full(self) -> bool:
        return len(self._open) + self._elsewhere >= self._max_connections

    def note_elsewhere(self, connections: int, of_key: dict[str, int]) -> None:
        """What other processes of this gateway hold, as of a second ago: bounds are of all together."""
        self._elsewhere = connections
        self._elsewhere_of_key = of_key

    def crowded_keys(self) -> dict[str, int]:
        """Keys with more than a few per cent of what they may have."""
        many = self._max_per_key // CROWDED_SHARE
        return {key_id: count for key_id, count in self._of_key.items() if count > many}

    def may_ask(self, connection: "ClientConnection", key_id: str) -> bool:
        """Notes whose it is from now on, unless the key has as many as it may."""
        if connection.key_id == key_id:
            return True
        if self._of_key[key_id] + self._elsewhere_of_key.get(key_id, 0) >= self._max_per_key:
            return False
        self._forget_key(connection)
        connection.key_id = key_id
        self._of_key[key_id] += 1
        return True

    def leave(self, connection: "ClientConnection") -> None:
        self._open.discard(connection)
        self._forget_key(connection)

    def _forget_key(self, connection: "ClientConnection") -> None:
        key_id, connection.key_id = connection.key_id, ""
        if key_id:
            self._of_key[key_id] -= 1
            if not self._of_key[key_id]:
                del self._of_key[key_id]

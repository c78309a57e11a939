"""What one open page shows of the live values, so that it is sent no others, and none twice. Pure."""

import json
from collections.abc import Callable, Sequence
from typing import Any

MAX_KEYS = 5_000


class Shown:
    """A page says which keys it shows; what it was told of them before it said so is told again."""

    def __init__(self) -> None:
        self._keys: Sequence[str] = ()
        self._told: dict[str, Any] = {}

    def ask(self, keys: Sequence[str]) -> None:
        self._keys, self._told = keys[:MAX_KEYS], {}

    def changes(self, value_of: Callable[[str], Any]) -> dict[str, Any]:
        """The values that differ from what was told last, which this notes; an unknown key has none."""
        values = {key: value_of(key) for key in self._keys}
        changed = {key: value for key, value in values.items() if value is not None and value != self._told.get(key)}
        self._told |= changed
        return changed


def read_keys(text: str | None) -> list[str] | None:
    """Of `{"show": [key, …]}`; None for whatever else a client may send."""
    try:
        message = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    keys = message.get("show") if isinstance(message, dict) else None
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        return None
    return keys

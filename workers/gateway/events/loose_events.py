"""Events that are written in another way than vLLM's: `data:` without a space, spaces in the JSON, usage first.

They are decoded, which costs more, so that usage is read wherever an engine tells it. What is not changed keeps its
bytes.
"""

import re
from typing import Any

import msgspec
from msgspec import Raw

_DATA_LINE = re.compile(rb"(?:\A|\n)data: ?")
_FIRST_COLON = re.compile(rb'\{\s*"[^"\\]*"(\s*:\s*)')

_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.encode


class LooseEvent:
    """One event whose `data` is an object. `has_choices`: it brings some of the answer."""

    def __init__(self, before: bytes, data: bytes, after: bytes) -> None:
        """Raises msgspec.DecodeError where `data` is no object."""
        self._before, self.data, self._after = before, data, after
        self._fields: dict[str, Any] = _decode_fields(data)
        self._is_changed = False
        choices = self.read("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        self.has_choices = choice is not None
        self._choice: dict[str, Any] = choice if isinstance(choice, dict) else {}

    @property
    def is_error(self) -> bool:
        return "error" in self._fields

    @property
    def choice_index(self) -> bytes:
        index = self._choice.get("index")
        return b"%d" % index if isinstance(index, int) else b"0"

    @property
    def has_output(self) -> bool:
        delta = self._choice.get("delta")
        content = {**delta, "role": None} if isinstance(delta, dict) else {"text": self._choice.get("text")}
        return any(content.values())

    @property
    def has_finish(self) -> bool:
        return self._choice.get("finish_reason") is not None

    def raw(self, name: str) -> bytes:
        """The object of that name as it came; b"" where there is none."""
        value = bytes(self._fields.get(name, b""))
        return value if value.startswith(b"{") else b""

    def read(self, name: str) -> Any:
        return msgspec.json.decode(self._fields.get(name, b"null"))

    def remove(self, name: str) -> None:
        self._is_changed |= self._fields.pop(name, None) is not None

    def rename(self, served: str, public: str) -> None:
        if self.read("model") == served:
            self._fields["model"] = Raw(_encode(public))
            self._is_changed = True

    def shown(self) -> bytes:
        return self._before + (self._rebuilt() if self._is_changed else self.data) + self._after

    def _rebuilt(self) -> bytes:
        """With the spaces that the engine puts, too."""
        found = _FIRST_COLON.match(self.data)
        colon = found[1] if found else b":"
        comma = b", " if colon.endswith(b" ") else b","
        members = [_encode(name) + colon + bytes(value) for name, value in self._fields.items()]
        return b"{" + comma.join(members) + b"}"


def read_loose(event: bytes) -> LooseEvent | None:
    """None of an event that holds no object, or more than one line of data."""
    found = _DATA_LINE.search(event)
    if found is None or _DATA_LINE.search(event, found.end()):
        return None
    end = event.find(b"\n", found.end())
    end = len(event) if end < 0 else end
    try:
        return LooseEvent(event[: found.end()], event[found.end() : end], event[end:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None

"""What is read from and changed in an event stream on its way to the client.

The engine is always asked for usage. What the client did not ask for is taken out again, so that the bytes it sees are
those that the engine alone would have sent (shapes: ../shared/data/vllm/samples, kept in tests/data/vllm).
"""

import msgspec

from workers.gateway.bodies import Usage, decode_usage

_END = b"\n\n"
_USAGE_KEY = b',"usage":{'
_FINGERPRINT_KEY = b',"system_fingerprint":'
_ROLE_DELTA = b'"delta":{"role":'
_WITHOUT_OUTPUT = (b'"delta":{}}]}', b'"choices":[]}')
MAX_EVENT_BYTES = 8 * 1024 * 1024


class StreamFilter:
    """Fed with the body's bytes as they come; returns what may go out, always whole events."""

    def __init__(self, *, hide_usage: bool, hide_continuous: bool, rename: tuple[str, str] | None = None) -> None:
        """`rename` is the model's name (from, to)."""
        self._hide_usage = hide_usage
        self._hide_continuous = hide_continuous
        self._rename = tuple(b'"model":' + msgspec.json.encode(name) for name in rename) if rename else None
        self._tail = b""
        self._held: list[bytes] = []
        self._usage = b""
        self.events_with_output = 0
        self.has_error = False
        self.is_done = False

    @property
    def usage(self) -> Usage | None:
        """The newest that the engine reported."""
        return decode_usage(self._usage) if self._usage else None

    def feed(self, chunk: bytes) -> bytes:
        chunk = self._tail + chunk if self._tail else chunk
        end = chunk.rfind(_END)
        if end < 0:
            self._tail = chunk
            return b""
        self._tail = chunk[end + 2 :]
        passed = [self._pass(event) for event in chunk[:end].split(_END)]
        return b"".join(passed)

    def finish(self) -> bytes:
        """What is still held when the engine has ended its answer."""
        rest = b"".join([event + _END for event in self._held]) + self._tail
        self._held, self._tail = [], b""
        return rest

    def finish_whole_events(self) -> bytes:
        """The same when it has broken off: half an event is dropped."""
        self._tail = b""
        return self.finish()

    @property
    def is_too_long(self) -> bool:
        return len(self._tail) > MAX_EVENT_BYTES

    def _pass(self, event: bytes) -> bytes:
        if not event.startswith(b"data: {"):
            return self._pass_mark(event)
        at = event.rfind(_USAGE_KEY)
        if at >= 0:
            end = _end_of_object(event, at + len(_USAGE_KEY) - 1)
            self._usage = event[at + len(_USAGE_KEY) - 1 : end]
            if b'"choices":[]' in event:
                return self._pass_usage_event(event)
            if self._hide_continuous:
                event = event[:at] + event[end:]
        return self._pass_output(event)

    def _pass_mark(self, event: bytes) -> bytes:
        if event == b"data: [DONE]":
            self.is_done = True
        return self._release() + event + _END

    def _pass_output(self, event: bytes) -> bytes:
        if event.startswith(b'data: {"error"'):
            self.has_error = True
        elif not event.endswith(_WITHOUT_OUTPUT) and _ROLE_DELTA not in event:
            self.events_with_output += 1
        event = self._renamed(event)
        if self._hide_usage and b'"finish_reason":"' in event:
            self._held.append(event)
            return b""
        return self._release() + event + _END

    def _pass_usage_event(self, event: bytes) -> bytes:
        if not self._hide_usage:
            return self._renamed(event) + _END
        fingerprint = _fingerprint_of(event)
        if fingerprint and self._held:
            # vLLM puts it on the last finish event when no usage event follows.
            self._held[-1] = self._held[-1][:-1] + _FINGERPRINT_KEY + fingerprint + b"}"
        return self._release()

    def _renamed(self, event: bytes) -> bytes:
        return event.replace(self._rename[0], self._rename[1], 1) if self._rename else event

    def _release(self) -> bytes:
        if not self._held:
            return b""
        released = b"".join([event + _END for event in self._held])
        self._held = []
        return released


def _end_of_object(event: bytes, start: int) -> int:
    """Index after the brace that closes the one at `start`; usage objects hold no strings with braces."""
    depth = 0
    position = start
    while True:
        close = event.find(b"}", position)
        if close < 0:
            return len(event)
        depth += event.count(b"{", position, close) - 1
        position = close + 1
        if depth <= 0:
            return position


def _fingerprint_of(event: bytes) -> bytes:
    at = event.rfind(_FINGERPRINT_KEY + b'"')
    if at < 0:
        return b""
    start = at + len(_FINGERPRINT_KEY)
    return event[start : event.index(b'"', start + 1) + 1]

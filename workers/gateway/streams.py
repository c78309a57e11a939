"""What is read from and changed in an event stream on its way to the client.

The engine is always asked for usage. What the client did not ask for is taken out again, so that the bytes it sees are
those that the engine alone would have sent (shapes: ../shared/data/vllm/samples, kept in tests/data/vllm).
"""

import re

import msgspec

from workers.gateway.bodies import Usage, decode_usage
from workers.gateway.dialects import Dialect

_END = b"\n\n"
_EVENT = b"data: {"
_NEXT_EVENT = _END + _EVENT  # in the middle of an event there is no empty line
_ERROR = b'data: {"error"'
_CHOICE_INDEX = re.compile(rb'"index":(\d+)')
_USAGE_KEY = b',"usage":{'
_FINISH = b'"finish_reason":"'
_FINGERPRINT_KEY = b',"system_fingerprint":'
_ROLE_DELTA = b'"delta":{"role":'
_WITHOUT_OUTPUT = b'"delta":{}}]}'
_WITHOUT_OUTPUT_END = _WITHOUT_OUTPUT + _END
_NO_CHOICES = b'"choices":[]'
_FIRST_CHOICE = b'"choices":[{"index":0,'
_ANOTHER_CHOICE = b'},{"index":'
MAX_EVENT_BYTES = 8 * 1024 * 1024


class StreamFilter:
    """Fed with the body's bytes as they come; returns what may go out, always whole events.

    `hide_usage` drops the usage event, `hide_counts` what it counts along in the others. `choices_per_prompt` is
    the request's `n`; `rename` is the model's name (from, to). `fingerprint` is the engine's
    `system_fingerprint` as JSON, b"" when it has none, None while that is unknown: vLLM stamps it on events that finish
    a choice when no usage event follows, and on the usage event otherwise.
    """

    def __init__(
        self,
        dialect: Dialect,
        *,
        hide_usage: bool,
        hide_counts: bool,
        rename: tuple[str, str] | None = None,
        fingerprint: bytes | None = None,
        choices_per_prompt: int = 1,
    ) -> None:
        self._dialect = dialect
        self._hide_usage = hide_usage
        self._hide_counts = hide_counts
        self._rename = tuple(b'"model":' + msgspec.json.encode(name) for name in rename) if rename else None
        self._choices_per_prompt = choices_per_prompt
        self._tail = b""
        self._held: list[bytes] = []
        self._final_usage = b""
        self._counts: dict[bytes, bytes] = {}
        self.fingerprint = fingerprint
        self.events_with_output = 0
        self.has_error = False

    @property
    def has_first_token(self) -> bool:
        return True  # engines send nothing before it

    @property
    def input_tokens(self) -> int | None:
        return None  # an engine that counts along tells both, and `usage` has it

    @property
    def usage(self) -> Usage | None:
        """The engine's final word, or what it had reported of every choice when the stream broke off."""
        has_counted_more = not self._dialect.counts_every_choice and len(self._counts) > 1
        if self._final_usage and not has_counted_more:
            return decode_usage(self._final_usage)
        return self._dialect.read_counts(self._counts, self._choices_per_prompt) if self._counts else None

    def feed(self, chunk: bytes) -> bytes:
        chunk = self._tail + chunk if self._tail else chunk
        end = chunk.rfind(_END)
        if end < 0:
            self._tail = chunk
            return b""
        self._tail = chunk[end + 2 :]
        if chunk.find(_END) == end:
            return self._pass(chunk[:end])
        return self._pass_all(chunk[: end + 2])

    def finish(self) -> bytes:
        """What is still held when the engine has ended its answer."""
        rest = self._release() + self._tail
        self._tail = b""
        return rest

    def finish_whole_events(self) -> bytes:
        """The same when it has broken off: half an event is dropped."""
        self._tail = b""
        return self.finish()

    @property
    def is_too_long(self) -> bool:
        return len(self._tail) > MAX_EVENT_BYTES

    def _pass_all(self, events: bytes) -> bytes:
        regular_bytes = 0 if self._held or self._rename else _regular_bytes(events)
        if regular_bytes == len(events):
            return self._pass_regular(events)
        passed = self._pass_regular(events[:regular_bytes]) if regular_bytes else b""
        return passed + self._pass_each(events[regular_bytes:])

    def _pass_each(self, events: bytes) -> bytes:
        return b"".join([self._pass(event) for event in events[:-2].split(_END)])

    def _pass_regular(self, events: bytes) -> bytes:
        """Does at once what `_pass` does event by event."""
        brought = events.count(_NEXT_EVENT) + events.startswith(_EVENT)
        if self._dialect.count_key in events:
            pieces = events.split(self._dialect.count_key)
            is_of_one_choice = events.count(_FIRST_CHOICE) == brought and _ANOTHER_CHOICE not in events
            if not is_of_one_choice or len(pieces) - 1 > brought:
                return self._pass_each(events)
            events = self._pass_counts(events, pieces)
        self.events_with_output += brought - events.count(_ROLE_DELTA) - events.count(_WITHOUT_OUTPUT_END)
        return events

    def _pass_counts(self, events: bytes, pieces: list[bytes]) -> bytes:
        """`pieces` are `events` split where the first choice's counts begin."""
        ends = [_end_of_object(piece, -1) for piece in pieces[1:]]
        self._counts[b"0"] = b"{" + pieces[-1][: ends[-1]]
        if not self._hide_counts:
            return events
        return pieces[0] + b"".join([piece[end:] for piece, end in zip(pieces[1:], ends, strict=True)])

    def _pass(self, event: bytes) -> bytes:
        if not event.startswith(_EVENT):
            return self._release() + event + _END
        if _NO_CHOICES in event:
            return self._pass_usage_event(event)
        key = self._dialect.count_key
        at = event.rfind(key)
        if at >= 0:
            start = at + len(key) - 1
            end = event.find(b"}", start) + 1
            if event.find(b"{", start + 1, end) >= 0 or not end:
                end = _end_of_object(event, start)
            self._counts[_choice_index(event)] = event[start:end]
            if self._hide_counts and (self._dialect.counts_in_finish or _FINISH not in event):
                event = event[:at] + event[end:]
        return self._pass_output(event)

    def _pass_output(self, event: bytes) -> bytes:
        if event.startswith(_ERROR):
            self.has_error = True
        elif not event.endswith(_WITHOUT_OUTPUT) and _ROLE_DELTA not in event:
            self.events_with_output += 1
        if self._rename:
            event = self._renamed(event)
        if not self._hide_usage or (self.fingerprint is None and not self.has_error):
            return self._pass_or_hold(event)
        return (self._release() if self._held else b"") + self._stamped(event) + _END

    def _pass_or_hold(self, event: bytes) -> bytes:
        # While the fingerprint is unknown, which is during an engine's first stream, all from the first finish on waits
        # for the usage event, which tells.
        if self._hide_usage and (self._held or _FINISH in event):
            self._held.append(event)
            return b""
        return event + _END

    def _pass_usage_event(self, event: bytes) -> bytes:
        at = event.rfind(_USAGE_KEY)
        if at >= 0:
            start = at + len(_USAGE_KEY) - 1
            self._final_usage = event[start : _end_of_object(event, start)]
        self.fingerprint = _fingerprint_of(event)
        return self._release() if self._hide_usage else self._renamed(event) + _END

    def _renamed(self, event: bytes) -> bytes:
        return event.replace(self._rename[0], self._rename[1], 1) if self._rename else event

    def _release(self) -> bytes:
        if not self._held:
            return b""
        released = b"".join([self._stamped(event) + _END for event in self._held])
        self._held = []
        return released

    def _stamped(self, event: bytes) -> bytes:
        if not self.fingerprint or _FINISH not in event or _FINGERPRINT_KEY in event:
            return event
        return event[:-1] + _FINGERPRINT_KEY + self.fingerprint + b"}"


def _regular_bytes(events: bytes) -> int:
    """How many of the bytes are events that only bring output, as nearly all do."""
    end = len(events)
    for mark in (_FINISH, _NO_CHOICES, _ERROR):
        at = events.find(mark, 0, end)
        if at >= 0:
            end = events.rfind(_END, 0, at) + len(_END) if _END in events[:at] else 0
    return end


def _choice_index(event: bytes) -> bytes:
    if _FIRST_CHOICE in event:
        return b"0"
    found = _CHOICE_INDEX.search(event)
    return found[1] if found else b"0"


def _end_of_object(event: bytes, start: int) -> int:
    """Index after the brace that closes the one at `start`; usage objects hold no strings with braces.

    -1 stands for a brace just before `event`.
    """
    depth, position = (0, start) if start >= 0 else (1, 0)
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

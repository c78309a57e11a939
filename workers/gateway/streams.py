"""What is read from and changed in an event stream on its way to the client.

The engine is always asked for usage. What the client did not ask for is taken out again, so that the bytes it sees are
those that the engine alone would have sent (shapes: ../shared/data/vllm/samples, kept in tests/data/vllm).
"""

import re

import msgspec

from workers.gateway.bodies import Usage, decode_usage
from workers.gateway.dialects import Dialect
from workers.gateway.event_stream import EVENT_END, EventStream

_END = EVENT_END
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
_DELTA = b'"delta":'
_OPENING = re.compile(rb'"delta":\{"role":"assistant"(?:,"content":(?:""|null))?\}')
_ENGINE_FAILURE = re.compile(rb'"code": ?5\d\d')
_BACKSLASH, _COMMA, _OBJECT_END = b"\\,}"
_REST_OF_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*"')
_NO_CHOICES = b'"choices":[]'
_FIRST_CHOICE = b'"choices":[{"index":0,'
_ANOTHER_CHOICE = b'},{"index":'


class StreamFilter(EventStream):
    """Fed with the body's bytes as they come; returns what may go out, always whole events.

    `hide_usage` drops the usage event, `hide_counts` what it counts along in the others. `choices_per_prompt` is
    the request's `n`; `rename` is the model's name (from, to). `fingerprint` is the engine's
    `system_fingerprint` as JSON, b"" when it has none, None while that is unknown: vLLM stamps it on events that finish
    a choice when no usage event follows, and on the usage event otherwise.

    After `text_mark` stands an event's text. While there is nothing in the stream but text, `text` is all of it, as it
    stands between the quotes of a JSON string, and an engine's own failure is held back: another engine may go on.
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
        text_mark: bytes = b"",
    ) -> None:
        self._dialect = dialect
        self._hide_usage = hide_usage
        self._hide_counts = hide_counts
        self._rename = tuple(b'"model":' + msgspec.json.encode(name) for name in rename) if rename else None
        self._choices_per_prompt = choices_per_prompt
        self._held: list[bytes] = []
        self._final_usage = b""
        self._counts: dict[bytes, bytes] = {}
        self.fingerprint = fingerprint
        self.events_with_output = 0
        self.has_error = False
        self.first_event = b""
        self.text = bytearray() if text_mark else None
        self._text_mark = text_mark
        self._after_text = _OBJECT_END if text_mark.startswith(_DELTA) else _COMMA
        self._last_event = b""
        self._held_error: list[bytes] = []

    @property
    def has_finished(self) -> bool:
        """Whether the last of the text is among what came."""
        return _FINISH in self._last_event

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

    def finish(self) -> bytes:
        """What is still held when the engine has ended its answer."""
        return self._release() + self.release_error() + super().finish()

    def finish_whole_events(self) -> bytes:
        self._held_error = []
        return super().finish_whole_events()

    def release_error(self) -> bytes:
        """The engine's failure, for a client whose stream nobody can continue."""
        held, self._held_error = self._held_error, []
        self._forget_text()
        return b"".join([event + _END for event in held])

    def _pass_all(self, events: bytes) -> bytes:
        regular_bytes = 0 if self._held or self._rename else _regular_bytes(events)
        if regular_bytes == len(events):
            return self._pass_regular(events)
        passed = self._pass_regular(events[:regular_bytes]) if regular_bytes else b""
        return passed + self._pass_each(events[regular_bytes:])

    def _pass_regular(self, events: bytes) -> bytes:
        """Does at once what `_pass` does event by event."""
        brought = events.count(_NEXT_EVENT) + events.startswith(_EVENT)
        if self._dialect.count_key in events:
            pieces = events.split(self._dialect.count_key)
            is_of_one_choice = events.count(_FIRST_CHOICE) == brought and _ANOTHER_CHOICE not in events
            if not is_of_one_choice or len(pieces) - 1 > brought or not self._keep_text_of(events, brought):
                return self._pass_each(events)
            events = self._pass_counts(events, pieces)
        else:
            self._forget_text()
        self.events_with_output += brought - events.count(_ROLE_DELTA) - events.count(_WITHOUT_OUTPUT_END)
        return events

    def _keep_text_of(self, events: bytes, brought: int) -> bool:
        """False when these are not all events with text, but for one that opens the answer."""
        if not self._text_mark or self.text is None:
            return True
        pieces = events.split(self._text_mark)
        if len(pieces) - 1 + events.count(_ROLE_DELTA) != brought or not self.first_event:
            return False
        for piece in pieces[1:]:
            end = _end_of_string(piece, 0)
            if piece[end + 1] != self._after_text:
                return False
            self.text += piece[:end]
        return True

    def _pass_counts(self, events: bytes, pieces: list[bytes]) -> bytes:
        """`pieces` are `events` split where the first choice's counts begin."""
        ends = [_end_of_object(piece, -1) for piece in pieces[1:]]
        self._counts[b"0"] = b"{" + pieces[-1][: ends[-1]]
        if not self._hide_counts:
            return events
        return pieces[0] + b"".join([piece[end:] for piece, end in zip(pieces[1:], ends, strict=True)])

    def _pass(self, event: bytes) -> bytes:
        if not event.startswith(_EVENT):
            return self._pass_other(event)
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
            if self._text_mark and _ENGINE_FAILURE.search(event):
                self._held_error.append(event)
                return b""
        elif not event.endswith(_WITHOUT_OUTPUT) and _ROLE_DELTA not in event:
            self.events_with_output += 1
        mark = self._text_mark
        if mark and self.text is not None:
            self._last_event = event
            at = event.find(mark)
            start = at + len(mark)
            end = _end_of_string(event, start) if at >= 0 else -1
            if end >= 0 and event[end + 1] == self._after_text and self.first_event:
                self.text += event[start:end]
            else:
                self._keep_irregular(event, start, end)
        if self._rename:
            event = self._renamed(event)
        if not self._hide_usage or (self.fingerprint is None and not self.has_error):
            return self._pass_or_hold(event)
        return (self._release() if self._held else b"") + self._stamped(event) + _END

    def _keep_irregular(self, event: bytes, start: int, end: int) -> None:
        """The first event, one that opens or closes the answer, or what is more than text."""
        self.first_event = self.first_event or event
        if self.text is not None and end >= 0 and event[end + 1] == self._after_text:
            self.text += event[start:end]
        elif not event.endswith(_WITHOUT_OUTPUT) and not _OPENING.search(event):
            self._forget_text()

    def _forget_text(self) -> None:
        self._text_mark = b""
        self.text = None

    def _pass_other(self, event: bytes) -> bytes:
        if self._held_error:
            self._held_error.append(event)
            return b""
        return self._release() + event + _END

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


def _end_of_string(event: bytes, start: int) -> int:
    """Index of the quote that closes the JSON string whose content begins at `start`; -1 without one."""
    end = event.find(b'"', start)
    if end > start and event[end - 1] == _BACKSLASH:
        rest = _REST_OF_STRING.match(event, start)
        return rest.end() - 1 if rest else -1
    return end


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

"""What is read from and changed in an event stream on its way to the client.

The engine is always asked for usage. What the client did not ask for is taken out again, so that the bytes it sees are
those that the engine alone would have sent (shapes: ../shared/data/vllm/samples, kept in tests/data/vllm).
"""

import msgspec

from workers.gateway.events.dialects import Dialect
from workers.gateway.events.event_fields import (
    DONE,
    ERROR,
    FINISH,
    USAGE_KEY,
    brings_output,
    choice_index,
    end_of_object,
    fingerprint_of,
    is_engine_failure,
    is_loose,
    says_nothing,
    stamped,
)
from workers.gateway.events.event_shape import EventShape, Run, end_of_string, shape_of
from workers.gateway.events.event_stream import EVENT_END, EventStream
from workers.gateway.events.loose_events import LooseEvent, read_loose
from workers.gateway.events.running_counts import CountsByChoice
from workers.gateway.payload.bodies import Usage, decode_usage

_END = EVENT_END
_EVENT = b"data: {"
_DELTA = b'"delta":'
_COMMA, _OBJECT_END = b",}"
_NO_CHOICES = b'"choices":[]'


class StreamFilter(EventStream):
    """Fed with the body's bytes as they come; returns what may go out, always whole events.

    `hide_usage` drops the usage event, `hide_counts` what it counts along in the others. `choices_per_prompt` is
    the request's `n`; `rename` is the model's name (from, to). `fingerprint` is the engine's
    `system_fingerprint` as JSON, b"" when it has none, None while that is unknown: vLLM stamps it on events that finish
    a choice when no usage event follows, and on the usage event otherwise.

    After `text_mark` stands an event's text. With `keeps_text`, and while there is nothing in the stream but text,
    `text` is all of it, as it stands between the quotes of a JSON string, and an engine's own failure is held back:
    another engine may go on.
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
        keeps_text: bool = False,
    ) -> None:
        self._dialect = dialect
        self._hide_usage = hide_usage
        self._hide_counts = hide_counts
        self._rename_to = rename
        self._rename = tuple(b'"model":' + msgspec.json.encode(name) for name in rename) if rename else None
        self._choices_per_prompt = choices_per_prompt
        self._held: list[bytes] = []
        self._final_usage = b""
        self.counts = CountsByChoice()
        self.fingerprint = fingerprint
        self.events_with_output = 0
        self.has_error = self.has_ended = self._has_begun = False
        self.first_event = self._last_event = b""
        self.text = bytearray() if keeps_text else None
        self._text_mark = text_mark
        self._shape: EventShape | None = None
        self._shape_shown = self._shape_end = b""
        self._after_text = _OBJECT_END if text_mark.startswith(_DELTA) else _COMMA
        self._held_error: list[bytes] = []

    last_data = b""  # events have no numbers here

    @property
    def has_finished(self) -> bool:
        """Whether the last of the text is among what came."""
        return FINISH in self._last_event

    @property
    def failed_at_once(self) -> bool:
        """An engine says who speaks only when it has run the prompt."""
        return self.has_error and not self._has_begun and self.usage is None

    @property
    def has_told_usage(self) -> bool:
        return bool(self._final_usage) and not self._hide_usage

    @property
    def has_first_token(self) -> bool:
        return True  # engines send nothing before it

    @property
    def input_tokens(self) -> int | None:
        return None  # an engine that counts along tells both, and `usage` has it

    @property
    def usage(self) -> Usage | None:
        """The engine's final word, or what it had reported of every choice when the stream broke off."""
        counts = self.counts.by_choice()
        if not (counts or self._final_usage):
            return None
        if self._final_usage and (self._dialect.counts_every_choice or len(counts) <= 1):
            return decode_usage(self._final_usage)
        return self._dialect.read_counts(counts, self._choices_per_prompt)

    def finish(self) -> bytes:
        """What is still held when the engine has ended its answer."""
        return self._release() + self.release_error() + self._renamed(super().finish())

    def finish_whole_events(self) -> bytes:
        self._held_error = []
        return super().finish_whole_events()

    def release_error(self) -> bytes:
        """The engine's failure, for a client whose stream nobody can continue."""
        held, self._held_error = self._held_error, []
        self.text = None
        return b"".join([event + _END for event in held])

    def feed(self, chunk: bytes) -> bytes:
        if self._shape is not None and not self._tail:
            run = self._shape.find_run(chunk, 0)
            if run.texts and run.end == len(chunk):
                return self._pass_run(self._shape, run, chunk, 0)
        return super().feed(chunk)

    def _pass_all(self, events: bytes) -> bytes:
        """As `_pass` event by event; those of the known shape are not looked into."""
        passed: list[bytes] = []
        at = 0
        while at < len(events):
            if self._shape is not None:
                run = self._shape.find_run(events, at)
                if run.end > at:
                    passed.append(self._pass_run(self._shape, run, events, at))
                    at = run.end
                    continue
            end = events.find(_END, at)
            if end < 0:  # a third line end in a row
                self._tail = events[at:] + self._tail
                break
            passed.append(self._pass(events[at:end]))
            at = end + len(_END)
        return b"".join(passed)

    def _pass_run(self, shape: EventShape, run: Run, events: bytes, at: int) -> bytes:
        """What goes out for the events of a run that begins at `at`."""
        self.events_with_output += len(run.texts)
        if self.text is not None:
            self.text += run.texts[0] if len(run.texts) == 1 else b"".join(run.texts)
        if shape.has_count:
            self._note_count(shape, run, events)
        if self._rename is None and not (shape.has_count and self._hide_counts):
            return events[at : run.end]
        if shape.has_count and not self._hide_counts:
            return b"".join([self._renamed(event) + _END for event in events[at : run.end - len(_END)].split(_END)])
        before, after = self._shape_shown, self._shape_end
        if len(run.texts) == 1:
            return b"".join((before, run.texts[0], after))
        return before + (after + before).join(run.texts) + after

    def _note_count(self, shape: EventShape, run: Run, events: bytes) -> None:
        counted = shape.running_count
        if counted is None:
            self.counts.note(b"0", events[run.count_at : run.count_end])
            return
        self.counts.note_running(counted.input_tokens, run.output_tokens)
        if self._final_usage:
            self.counts.write_down()  # it has had its final word

    def _pass(self, event: bytes) -> bytes:
        """From now on the stream's shape is that of this event, if it may be one."""
        shape = None if self._held else shape_of(event, self._text_mark, self._dialect.count_key)
        if shape is not None:
            self._adopt(shape)
        return self._pass_any(event)

    def _adopt(self, shape: EventShape) -> None:
        after = shape.after
        if shape.has_count and self._hide_counts:
            after = after[: -len(self._dialect.count_key)] + b"}"
        self._shape, self._shape_shown, self._shape_end = shape, self._renamed(shape.before), after + _END

    def _pass_any(self, event: bytes) -> bytes:
        if not event.startswith(_EVENT) or is_loose(event):
            loose = read_loose(event)
            return self._pass_loose(loose) if loose is not None else self._pass_other(event)
        if _NO_CHOICES in event:
            return self._pass_usage_event(event)
        key = self._dialect.count_key
        at = event.rfind(key)
        if at >= 0:
            start = at + len(key) - 1
            end = event.find(b"}", start) + 1
            if event.find(b"{", start + 1, end) >= 0 or not end:
                end = end_of_object(event, start)
            self.counts.note(choice_index(event), event[start:end])
            if self._hide_counts and (self._dialect.counts_in_finish or FINISH not in event):
                event = event[:at] + event[end:]
        return self._pass_output(event)

    def _pass_output(self, event: bytes) -> bytes:
        if event.startswith(ERROR):
            self.has_error = True
            if self.text is not None and is_engine_failure(event):
                self._held_error.append(event)
                return b""
        else:
            self._has_begun = True
            self.events_with_output += brings_output(event)
        if self.text is not None:
            self._keep_text(event)
        if self._rename:
            event = self._renamed(event)
        if not self._hide_usage or (self.fingerprint is None and not self.has_error):
            return self._pass_or_hold(event)
        return (self._release() if self._held else b"") + stamped(event, self.fingerprint) + _END

    def _keep_text(self, event: bytes) -> None:
        """Of an event that may open or close the answer, or be more than text."""
        self.first_event = self.first_event or event
        self._last_event = event
        at = event.find(self._text_mark)
        start = at + len(self._text_mark)
        end = end_of_string(event, start) if at >= 0 else -1
        if end >= 0 and event[end + 1] == self._after_text and self.text is not None:
            self.text += event[start:end]
        elif not says_nothing(event):
            self.text = None

    def _pass_loose(self, event: LooseEvent) -> bytes:
        """What is written in an unknown way is not gone on with elsewhere."""
        self.text = None
        self.has_error |= event.is_error
        if event.has_choices:
            self._has_begun = True
            self._count_loose(event)
        elif usage := event.raw("usage"):
            self._take_final(usage)
            if self._hide_usage:
                return self._release()
        if self._rename_to is not None:
            event.rename(*self._rename_to)
        return self._release() + event.shown() + _END

    def _count_loose(self, event: LooseEvent) -> None:
        key = self._dialect.count_key.decode().split('"')[1]
        if counts := event.raw(key):
            self.counts.note(event.choice_index, counts)
        if self._hide_counts and (self._dialect.counts_in_finish or not event.has_finish):
            event.remove(key)
        self.events_with_output += event.has_output

    def _pass_other(self, event: bytes) -> bytes:
        if self._held_error:
            self._held_error.append(event)
            return b""
        self.has_ended = self.has_ended or event in DONE
        return self._release() + event + _END

    def _pass_or_hold(self, event: bytes) -> bytes:
        # While the fingerprint is unknown, which is during an engine's first stream, all from the first finish on waits
        # for the usage event, which tells.
        if self._hide_usage and (self._held or FINISH in event):
            self._held.append(event)
            self._shape = None  # nothing goes the quick way past what waits
            return b""
        return event + _END

    def _pass_usage_event(self, event: bytes) -> bytes:
        at = event.rfind(USAGE_KEY)
        if at >= 0:
            start = at + len(USAGE_KEY) - 1
            self._take_final(event[start : end_of_object(event, start)])
        self.fingerprint = fingerprint_of(event)
        return self._release() if self._hide_usage else self._renamed(event) + _END

    def _take_final(self, usage: bytes) -> None:
        self.counts.write_down()
        self._final_usage = usage

    def _renamed(self, event: bytes) -> bytes:
        return event.replace(self._rename[0], self._rename[1], 1) if self._rename else event

    def _release(self) -> bytes:
        if not self._held:
            return b""
        held, self._held = self._held, []
        return b"".join([stamped(event, self.fingerprint) + _END for event in held])

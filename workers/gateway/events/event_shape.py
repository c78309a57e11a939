"""What the events of one stream have in common: all but the text and the count of most of them is the same.

An event that is recognised by its shape is known to bring text of the first choice and nothing else, so that it need
not be searched for anything else.
"""

from workers.gateway.events.event_stream import EVENT_END
from workers.gateway.events.running_counts import RunningCount, running_count

_FIRST_CHOICE = b'"choices":[{"index":0,'
_NO_FINISH = b'"finish_reason":null'
_BACKSLASH, _QUOTE, _LINE_END, _OBJECT_END = 92, 34, 10, 125
_FEW = 24


class EventShape:
    """An event is `before`, the text as it stands in a JSON string, `after`, and what the engine counts, if it does.

    `after` begins with the quote that ends the text, so that no text can contain it: a quote within is escaped, and
    what follows it in `after` holds quotes that are not. It ends with the brace that opens the count, if there is one.
    `running_count` reads counts in the words that are known.
    """

    __slots__ = ("_closing", "after", "before", "has_count", "running_count")

    def __init__(
        self, before: bytes, after: bytes, *, has_count: bool, running_count: RunningCount | None = None
    ) -> None:
        self.before = before
        self.after = after
        self.has_count = has_count
        self.running_count = running_count
        self._closing = after if has_count else after + EVENT_END
        if running_count is not None:
            self._closing += running_count.lead

    def find_run(self, events: bytes, at: int) -> "Run":
        """All events of this shape from `at` on, up to the first that has to be looked at by itself."""
        before, closing, counts = self.before, self._closing, self.running_count
        run = Run(at)
        while True:
            text_at = at + len(before)
            if events[at:text_at] != before:
                return run
            text_end = _end_of_plain(events, text_at)
            end = text_end + len(closing)
            if text_end < 0 or events[text_end:end] != closing:
                return run
            if counts is not None:
                end = counts.end_of_event(events, end)
                if end < 0:
                    return run
                run.output_tokens = counts.output_tokens
            elif self.has_count:
                count_end = events.find(b"\n", end)
                if not _is_count(events, end, count_end):
                    return run
                run.count_at, run.count_end = end - 1, count_end - 1
                end = count_end + len(EVENT_END)
            run.texts.append(events[text_at:text_end])
            run.end = at = end


class Run:
    """Events of one shape, one after the other: their texts, what or where the last one counts, where the next begins.

    `output_tokens` is what it counts where that is read by a RunningCount; else it stands at `count_at`.
    """

    __slots__ = ("count_at", "count_end", "end", "output_tokens", "texts")

    def __init__(self, at: int) -> None:
        self.texts: list[bytes] = []
        self.count_at = self.count_end = self.output_tokens = 0
        self.end = at


def shape_of(event: bytes, text_mark: bytes, count_key: bytes) -> EventShape | None:
    """None for an event that is no pattern for others, such as one that ends the answer."""
    at = event.find(text_mark) if text_mark else -1
    start = at + len(text_mark)
    end = end_of_string(event, start) if at >= 0 else -1
    if end < 0 or _FIRST_CHOICE not in event[:start]:
        return None
    rest = event[end:]
    key_at = rest.rfind(count_key)
    after = rest[: key_at + len(count_key)] if key_at >= 0 else rest
    if _NO_FINISH not in after or after.count(b'{"index":') or not event.endswith(b"}"):
        return None
    counts = running_count(rest[len(after) :]) if key_at >= 0 else None
    return EventShape(event[:start], after, has_count=key_at >= 0, running_count=counts)


def end_of_string(event: bytes, start: int) -> int:
    """Index of the quote that closes the JSON string whose content begins at `start`; -1 without one."""
    end = event.find(b'"', start)
    while end > start and _is_escaped(event, start, end):
        end = event.find(b'"', end + 1)
    return end


def _end_of_plain(events: bytes, at: int) -> int:
    """Index of the quote that ends a text in which nothing is escaped and no line ends; else -1.

    Most texts are a few letters, for which a search is long.
    """
    for place in range(at, min(len(events), at + _FEW)):
        letter = events[place]
        if letter == _QUOTE:
            return place
        if letter in (_BACKSLASH, _LINE_END):
            return -1
    end = events.find(b'"', at + _FEW)
    is_plain = end >= 0 and events.find(b"\\", at, end) < 0 and events.find(b"\n", at, end) < 0
    return end if is_plain else -1


def _is_count(events: bytes, at: int, end: int) -> bool:
    """Whether what stands there is the rest of a count and of its event: no object within, and the end behind it."""
    if end <= at or events[end - 1] != _OBJECT_END or events.find(b"{", at, end) >= 0:
        return False
    return events[end : end + len(EVENT_END)] == EVENT_END


def _is_escaped(event: bytes, start: int, quote: int) -> bool:
    backslashes = 0
    while quote - 1 - backslashes >= start and event[quote - 1 - backslashes] == _BACKSLASH:
        backslashes += 1
    return backslashes % 2 == 1

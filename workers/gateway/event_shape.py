"""What the events of one stream have in common: all but the text and the count of most of them is the same.

An event that is recognised by its shape is known to bring text of the first choice and nothing else, so that it need
not be searched for anything else.
"""

from workers.gateway.event_stream import EVENT_END

_FIRST_CHOICE = b'"choices":[{"index":0,'
_NO_FINISH = b'"finish_reason":null'
_BACKSLASH = 92
_QUOTE = 34
_FEW = 24


class EventShape:
    """An event is `before`, the text as it stands in a JSON string, `after`, and what the engine counts, if it does.

    `after` begins with the quote that ends the text, so that no text can contain it: a quote within is escaped, and
    what follows it in `after` holds quotes that are not. It ends with the brace that opens the count, if there is one.
    """

    __slots__ = ("_between", "after", "before", "has_count")

    def __init__(self, before: bytes, after: bytes, *, has_count: bool) -> None:
        self.before = before
        self.after = after
        self.has_count = has_count
        # What stands between two texts, or between a count and the next text.
        self._between = (b"" if has_count else after) + EVENT_END + before

    def find_run(self, events: bytes, at: int) -> "Run | None":
        """All events of this shape from `at` on, as far as another one follows that begins like them.

        None if there are none, or if one of them must be looked at by itself.
        """
        start = at + len(self.before)
        if events[at:start] != self.before:
            return None
        parts = events[start:].split(self._between)
        last = parts.pop()
        if not parts:
            return None
        end = len(events) - len(last) - len(self.before)
        return self._counted_run(parts, end) if self.has_count else _run_of(parts, parts, b"", end)

    def _counted_run(self, parts: list[bytes], end: int) -> "Run | None":
        texts: list[bytes] = []
        counts: list[bytes] = []
        for part in parts:
            text, _, count = part.partition(self.after)
            if not count.endswith(b"}"):
                return None
            texts.append(text)
            counts.append(count)
        counted = b"".join(counts)
        if counted.find(b"{") >= 0 or counted.find(b"\n") >= 0:
            return None
        return _run_of(parts, texts, b"{" + counts[-1][:-1], end)


class Run:
    """Events of one shape, one after the other: what of each is its own, their texts, and where the next begins.

    `count` is what the last one counts; `text` is all texts together.
    """

    __slots__ = ("count", "end", "parts", "text", "texts")

    def __init__(self, parts: list[bytes], texts: list[bytes], text: bytes, count: bytes, end: int) -> None:
        self.parts = parts
        self.texts = texts
        self.text = text
        self.count = count
        self.end = end


def _run_of(parts: list[bytes], texts: list[bytes], count: bytes, end: int) -> Run | None:
    """None if something in a text is escaped, or an event that is none of them hides in it."""
    text = b"".join(texts)
    if text.find(b'"') >= 0 or text.find(b"\n") >= 0:
        return None
    return Run(parts, texts, text, count, end)


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
    return EventShape(event[:start], after, has_count=key_at >= 0)


def end_of_string(event: bytes, start: int) -> int:
    """Index of the quote that closes the JSON string whose content begins at `start`; -1 without one."""
    end = event.find(b'"', start)
    while end > start and _is_escaped(event, start, end):
        end = event.find(b'"', end + 1)
    return end


def find_quote(events: bytes, at: int, end: int) -> int:
    """Index of the first quote from `at` on; -1 without one. Most texts are a few letters, for which a call is long."""
    for place in range(at, min(end, at + _FEW)):
        if events[place] == _QUOTE:
            return place
    return events.find(b'"', at + _FEW, end)


def _is_escaped(event: bytes, start: int, quote: int) -> bool:
    backslashes = 0
    while quote - 1 - backslashes >= start and event[quote - 1 - backslashes] == _BACKSLASH:
        backslashes += 1
    return backslashes % 2 == 1

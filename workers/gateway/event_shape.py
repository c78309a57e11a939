"""What the events of one stream have in common: all but the text and the count of most of them is the same.

An event that is recognised by its shape is known to bring text of the first choice and nothing else, so that it need
not be searched for anything else.
"""

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

    __slots__ = ("after", "before", "has_count")

    def __init__(self, before: bytes, after: bytes, *, has_count: bool) -> None:
        self.before = before
        self.after = after
        self.has_count = has_count


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

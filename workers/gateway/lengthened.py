"""vLLM says of a body that lacks a field how many it has: "<dict of 5 items>". Ours among them are not the client's."""

import json
import re

_COUNT = re.compile(rb"<dict of (\d+) items>")


def without_ours(answer: bytes, asked: bytes, sent: bytes) -> bytes:
    """The engine's refusal as it would be of what the client `asked`, and not of what was `sent`."""
    if _COUNT.search(answer) is None:
        return answer
    ours, theirs = _count(sent), _count(asked)
    told = b"<dict of %d items>"
    return answer if ours == theirs else answer.replace(told % ours, told % theirs)


def _count(body: bytes) -> int:
    try:
        return len(json.loads(body))
    except (ValueError, TypeError, RecursionError):
        return 0

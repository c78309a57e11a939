"""vLLM says of a body that lacks a field how many it has: "<dict of 5 items>". Ours among them are not the client's."""

import json
import re

# Where a field of the body itself is missing, or the body as a whole is wrong, what was looked at is the body. An API
# may have put fields of its own in before.
_OF_BODY = re.compile(
    rb"((?:'type': 'missing', 'loc': 'body\.[^.']+'|'loc': 'body')[^{}]*'input': '<dict of )(\d+)(?= items>')"
)


def without_ours(answer: bytes, asked: bytes, sent: bytes) -> bytes:
    """The engine's refusal as it would be of what the client `asked`, and not of what was `sent`."""
    if _OF_BODY.search(answer) is None:
        return answer
    added = _count(sent) - _count(asked)
    return _OF_BODY.sub(lambda found: b"%b%d" % (found[1], int(found[2]) - added), answer)


def _count(body: bytes) -> int:
    try:
        return len(json.loads(body))
    except (ValueError, TypeError, RecursionError):
        return 0

"""Where a file or a batch lives: on the node whose tag its id begins with."""

from hashlib import sha256

_TAG_DIGITS = 8
_PREFIXES = ("file-", "batch_")


def tag_of(node_id: str) -> str:
    return sha256(node_id.encode()).hexdigest()[:_TAG_DIGITS]


def node_tag(name: str) -> str:
    """Of a file's or batch's id; "" of what is none."""
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix) : len(prefix) + _TAG_DIGITS]
    return ""

"""What a node's labels may look like: few, short, and usable in a query."""

import re
from typing import Any

MOST_LABELS = 32
_NAME = re.compile(r"[a-z0-9]([a-z0-9./_-]{0,61}[a-z0-9])?")
_LONGEST_VALUE = 63


def label_problem(labels: dict[str, Any]) -> str:
    """Empty when all is well."""
    if len(labels) > MOST_LABELS:
        return f"at most {MOST_LABELS} labels"
    for name, value in labels.items():
        if not _NAME.fullmatch(name):
            return f"{name[:63]!r} should be lower-case letters, digits and ./_-, at most 63"
        if not isinstance(value, str) or len(value) > _LONGEST_VALUE or not value.isprintable():
            return f"the value of {name!r} should be a text of at most {_LONGEST_VALUE} printable characters"
    return ""

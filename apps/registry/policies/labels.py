"""How a model's next version may be called. Pure."""

import re
from collections.abc import Iterable

_NUMBERED = re.compile(r"v(\d{1,9})")


def next_label(taken: Iterable[str]) -> str:
    """One above the highest numbered one, so that a label that was deleted is not soon another's."""
    numbers = [int(found[1]) for label in taken if (found := _NUMBERED.fullmatch(label))]
    return f"v{max(numbers, default=0) + 1}"

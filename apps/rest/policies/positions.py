"""A position in the log of changes, as text: what a list names as its resource version and an event as its id. Pure."""

import re
from typing import NamedTuple

_TEXT = re.compile(r"(\d{1,19})-(\d{1,19})")
_BIGGEST = 2**63 - 1


class Position(NamedTuple):
    """After the change `change_id` of transaction `transaction`."""

    transaction: int
    change_id: int

    def __str__(self) -> str:
        return f"{self.transaction}-{self.change_id}"


def read_position(text: str) -> Position | None:
    """None for what is none."""
    found = _TEXT.fullmatch(text)
    position = Position(int(found[1]), int(found[2])) if found else None
    return position if position and max(position) <= _BIGGEST else None

"""What somebody who misspelt a name may have meant."""

from collections.abc import Iterable
from difflib import get_close_matches

_MOST_NAMED = 3


def suggestion(text: str, names: Iterable[str]) -> str:
    """To stand behind what is wrong: "", or "; did you mean …?"."""
    close = get_close_matches(text, list(names), n=_MOST_NAMED)
    return f"; did you mean {' or '.join(close)}?" if close else ""

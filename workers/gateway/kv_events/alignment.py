"""How many of a prompt's tokens the leading bytes of its text are: where a text block ends among the tokens.

The text is JSON as the client sent it, the tokens are what a chat template made of it. So the end of a block is looked
for by its last characters, near where it should be; where they cannot be found, by the distance from the last that was.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

ANCHOR_CHARACTERS = 24
_SEARCHED_BYTES = 64
_SEARCH_WITHIN = 600
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MEANINGS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
# As byte-level and SentencePiece tokenisers show white space.
_SHOWN = str.maketrans({"Ġ": " ", "Ċ": "\n", "ĉ": "\t", "▁": " "})


def align(text: bytes, ends: Sequence[int], token_texts: Sequence[str]) -> list[int]:
    """For each end, a number of bytes of `text` and growing, how many tokens stand whole before it."""
    shown = "".join(token_texts).translate(_SHOWN)
    token_ends = list(accumulate(map(len, token_texts)))
    return [bisect_right(token_ends, place) for place in _places(text, ends, shown)]


def align_ids(text: bytes, ends: Sequence[int]) -> list[int]:
    """The same for a prompt that is a JSON list of token ids."""
    return [text.count(b",", 0, end) for end in ends]


def _places(text: bytes, ends: Sequence[int], shown: str) -> Iterator[int]:
    place, last_end = 0, 0
    for end in ends:
        expected = min(len(shown), place + (end - last_end))
        found = _find_near(shown, _anchor(text, end), expected, place)
        place = max(place, expected if found is None else found)
        last_end = end
        yield place


def _anchor(text: bytes, end: int) -> str:
    """The last characters before it, as they are without JSON's escapes."""
    piece = text[max(0, end - _SEARCHED_BYTES) : end].decode("utf-8", "ignore")
    if (len(piece) - len(piece.rstrip("\\"))) % 2:
        piece = piece[:-1]
    plain = _ESCAPE.sub(lambda found: _MEANINGS.get(found[1], found[1]), piece)
    return plain[-ANCHOR_CHARACTERS:]


def _find_near(shown: str, anchor: str, expected: int, lowest: int) -> int | None:
    """Where the occurrence ends that is nearest to what is expected."""
    if len(anchor) < ANCHOR_CHARACTERS:
        return None
    before = shown.rfind(anchor, max(lowest, expected - _SEARCH_WITHIN), expected)
    after = shown.find(anchor, max(lowest, expected - len(anchor)), expected + _SEARCH_WITHIN)
    ends = [found + len(anchor) for found in (before, after) if found >= 0]
    return min(ends, key=lambda end: abs(end - expected), default=None)

"""How many of a prompt's tokens the leading bytes of its text are: where a text block ends among the tokens.

The text is JSON as the client sent it, the tokens are what a chat template made of it. So the end of a block is looked
for by its last bytes, near where it should be; where they cannot be found, by the distance from the last that was.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

ANCHOR_BYTES = 24
_SEARCH_WITHIN = 600
_ESCAPES = re.compile(rb"(?:\\u[0-9a-fA-F]{4})+|\\.", re.DOTALL)


def align(text: bytes, ends: Sequence[int], token_texts: Sequence[str]) -> list[int]:
    """For each end, a number of bytes of `text` and growing, how many tokens stand whole before it."""
    shown = _token_bytes(token_texts)
    token_ends = list(accumulate(map(len, shown)))
    plain, plain_ends = _without_escapes(text, ends)
    return [bisect_right(token_ends, place) for place in _places(plain, plain_ends, b"".join(shown))]


def align_ids(text: bytes, ends: Sequence[int]) -> list[int]:
    """The same for a prompt that is a JSON list of token ids."""
    return [text.count(b",", 0, end) for end in ends]


def _places(plain: bytes, ends: Sequence[int], shown: bytes) -> Iterator[int]:
    place, last_end = 0, 0
    for end in ends:
        expected = min(len(shown), place + (end - last_end))
        found = _find_near(shown, plain[max(0, end - ANCHOR_BYTES) : end], expected, place)
        place = max(place, expected if found is None else found)
        last_end = end
        yield place


def _find_near(shown: bytes, anchor: bytes, expected: int, lowest: int) -> int | None:
    """Where the occurrence ends that is nearest to what is expected."""
    if len(anchor) < ANCHOR_BYTES:
        return None
    before = shown.rfind(anchor, max(lowest, expected - _SEARCH_WITHIN), expected)
    after = shown.find(anchor, max(lowest, expected - len(anchor)), expected + _SEARCH_WITHIN)
    ends = [found + len(anchor) for found in (before, after) if found >= 0]
    return min(ends, key=lambda end: abs(end - expected), default=None)


def _without_escapes(text: bytes, ends: Sequence[int]) -> tuple[bytes, list[int]]:
    """The text as it is without JSON's escapes, and the same ends in it; one amid an escape is before it."""
    pieces: list[bytes] = []
    plain_ends: list[int] = []
    begin, length = 0, 0
    waiting = iter(ends)
    end = next(waiting, None)
    for found in _ESCAPES.finditer(text):
        while end is not None and end < found.end():
            plain_ends.append(length + min(end, found.start()) - begin)
            end = next(waiting, None)
        pieces += (text[begin : found.start()], _meaning(found[0]))
        length += len(pieces[-2]) + len(pieces[-1])
        begin = found.end()
    while end is not None:
        plain_ends.append(length + end - begin)
        end = next(waiting, None)
    return b"".join((*pieces, text[begin:])), plain_ends


def _meaning(escapes: bytes) -> bytes:
    try:
        meaning: str = json.loads(b'"' + escapes + b'"')
    except ValueError:
        return escapes
    return meaning.encode("utf-8", "replace")


def _token_bytes(token_texts: Sequence[str]) -> list[bytes]:
    """As byte-level tokenisers show them, a character for each byte; or as SentencePiece does, with its own space."""
    is_by_bytes = any("Ġ" in text or "Ċ" in text for text in token_texts)
    if not is_by_bytes:
        return [text.replace("▁", " ").encode("utf-8", "replace") for text in token_texts]
    return [b"".join(_BYTE_OF.get(character, b"?") for character in text) for text in token_texts]


def _byte_of_characters() -> dict[str, bytes]:
    """GPT-2's table: bytes that print are shown as they are, the others as the characters from U+0100 on, in order."""
    printing = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [number for number in range(256) if number not in printing]
    shown = {chr(number): bytes([number]) for number in printing}
    return shown | {chr(0x100 + index): bytes([number]) for index, number in enumerate(others)}


_BYTE_OF = _byte_of_characters()

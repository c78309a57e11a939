"""The chunks of an engine's answer that a read brings whole: taken without the parser, which is left the others."""

from typing import Final

_CR, _LF = 13, 10
_MAX_DIGITS = 7
_DIGITS: Final = [int(chr(byte), 16) if chr(byte) in "0123456789abcdefABCDEF" else -1 for byte in range(256)]


def take_whole_chunks(data: bytes, at: int, pieces: list[bytes]) -> int:
    """Appends what the whole chunks from `at` on hold. Returns where the first begins that is none, or is the last.

    Whatever is unusual is none: the parser judges it.
    """
    length = len(data)
    while at < length:
        size, start = 0, at
        while at < length:
            digit = _DIGITS[data[at]]
            if digit < 0:
                break
            size = size * 16 + digit
            at += 1
        end = at + 2 + size
        is_whole = size and at - start <= _MAX_DIGITS and end + 2 <= length
        if not is_whole or data[at] != _CR or data[at + 1] != _LF or data[end] != _CR or data[end + 1] != _LF:
            return start
        pieces.append(data[at + 2 : end])
        at = end + 2
    return at

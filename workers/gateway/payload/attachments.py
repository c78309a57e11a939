"""Images, sounds and films in a prompt: none of their bytes is text, nor is an address that they are fetched from.

In all spellings that engines take: chats' `image_url` (an object or the address itself), `video_url`, `audio_url`,
`input_audio` and embeddings, Responses' `input_image` and `input_file`, Anthropic's `source`.
"""

import re
from collections.abc import Sequence

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_ATTACHED = re.compile(
    rb'"(?:(?:image|video|audio|file)_url|input_audio|file_data|(?:image|audio|prompt)_embeds|(source))"\s*:\s*'
    rb'(?:' + _STRING + rb'|\{[^{}"]*(?:' + _STRING + rb'[^{}"]*)*\})',
    re.DOTALL,
)  # fmt: skip
_MARKS = (b'_url"', b'_audio"', b'_data"', b'_embeds"')
_UNDERSCORE = 95
_SOURCE = b'"source"'
# Of Anthropic's; any other object of the name is the client's own.
_SOURCE_KIND = re.compile(rb'"type"\s*:\s*"(?:base64|url)"')


class Attached:
    """How many there are, and the bytes of the body that they take."""

    __slots__ = ("count", "size_bytes")

    def __init__(self, count: int, size_bytes: int) -> None:
        self.count = count
        self.size_bytes = size_bytes


NOTHING_ATTACHED = Attached(0, 0)


def find_attached(parts: Sequence[bytes]) -> Attached:
    """Most parts are done after two searches."""
    found = [
        match for part in parts if _may_hold_any(part) for match in _ATTACHED.finditer(part) if _is_attached(match)
    ]
    return Attached(len(found), sum([match.end() - match.start() for match in found])) if found else NOTHING_ATTACHED


def _may_hold_any(part: bytes) -> bool:
    # `find` where `in` would do: for bytes that raises and catches an error inside; for one byte's number it does not.
    if _UNDERSCORE in part and any(part.find(mark) >= 0 for mark in _MARKS):
        return True
    return part.find(_SOURCE) >= 0


def _is_attached(match: re.Match[bytes]) -> bool:
    return match[1] is None or _SOURCE_KIND.search(match[0]) is not None

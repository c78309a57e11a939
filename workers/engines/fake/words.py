"""Tokens are words: `" word"`, or a run of other white space. Joined they give the text back, byte for byte."""

import random
import re
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from importlib.resources import files

_TOKEN = re.compile(r" ?\S+|\s+?(?= \S)|\s+")
_FIRST_UNKNOWN_ID = 1 << 20
_UNKNOWN = "<unk>"
_SCATTER = 0x9E3779B1  # 2³² over the golden ratio: neighbouring checksums become distant numbers

WORDS: tuple[str, ...] = tuple(files("workers.engines.fake").joinpath("data/words.txt").read_text().split())


def split_tokens(text: str) -> list[str]:
    """Raises UnicodeEncodeError for half a surrogate pair, of which no tokenizer makes a token."""
    if not text.isascii():
        text.encode()
    return _TOKEN.findall(text)


def chat_tokens(messages: Iterable[tuple[str, str]], begun: str | None = None) -> list[str]:
    """ChatML, with three tokens of frame per message and for the answer to come, of which `begun` is there already."""
    tokens: list[str] = []
    for role, content in messages:
        tokens += ["<|im_start|>", role, "\n", *split_tokens(content), "<|im_end|>"]
    return [*tokens, "<|im_start|>", "assistant", "\n", *split_tokens(begun or "")]


def block_hashes(tokens: Sequence[str], block_size: int, salt: str = "") -> tuple[bytes, ...]:
    """One per full block; each covers everything before it. Stable across processes."""
    hashes = []
    parent = salt.encode()
    for end in range(block_size, len(tokens) + 1, block_size):
        content = "\0".join(tokens[end - block_size : end]).encode("utf-8", "surrogatepass")
        parent = blake2b(parent + content, digest_size=16).digest()
        hashes.append(parent)
    return tuple(hashes)


def seeded(*parts: object) -> random.Random:
    """The same sequence of choices for the same parts, in any process."""
    digest = blake2b("\0".join(map(str, parts)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return random.Random(int.from_bytes(digest))  # noqa: S311 text to look at, not a secret


def write_words(context: Iterable[str], count: int, opening: str = "") -> list[str]:
    """`count` tokens of text, each a word; `opening` stands before the first, a space before the others.

    A word follows from all that stands before it, so that a text that is cut anywhere goes on as it would have.
    """
    state = 0
    for token in context:
        state = zlib.crc32(token.encode("utf-8", "surrogatepass"), state)
    tokens = []
    for index in range(count):
        token = (" " if index else opening) + WORDS[(state * _SCATTER >> 12) % len(WORDS)]
        tokens.append(token)
        state = zlib.crc32(token.encode(), state)
    return tokens


def shown_token(token: str) -> str:
    """As byte-level tokenisers show white space."""
    return token.replace(" ", "Ġ").replace("\n", "Ċ")


class TokenIds:
    """Ids for /tokenize and for prompts given as ids. Words of ours have fixed ids, others are remembered a while."""

    def __init__(self, limit: int = 65_536) -> None:
        self._limit = limit
        self._known = [form for word in WORDS for form in (word, f" {word}")]
        self._id_by_known = {token: number for number, token in enumerate(self._known)}
        self._recent: OrderedDict[int, str] = OrderedDict()

    def encode(self, token: str) -> int:
        known = self._id_by_known.get(token)
        if known is not None:
            return known
        number = _FIRST_UNKNOWN_ID + zlib.crc32(token.encode("utf-8", "surrogatepass"))
        self._recent[number] = token
        if len(self._recent) > self._limit:
            self._recent.popitem(last=False)
        return number

    def decode(self, number: int) -> str:
        if 0 <= number < len(self._known):
            return self._known[number]
        return self._recent.get(number, _UNKNOWN)

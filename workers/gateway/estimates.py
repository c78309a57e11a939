"""What is expected of a request before it runs: tokens of its prompt, tokens of its answer. Learned from usage."""

import re
from collections import OrderedDict
from collections.abc import Sequence
from math import exp, log

from workers.gateway.bodies import Peek
from workers.gateway.lines import ERROR_RATE, Line

MAX_LENGTHS = 10_000
MAX_VERSIONS = 1000
# A version of which nothing is known: a chat template's few tokens, and four bytes to a token.
PRIOR_TOKENS = ((256.0, 72.0), (4096.0, 1032.0))
WELL_KNOWN_AFTER = 64
PRIOR_LOG_LENGTH = 5.0
LENGTH_RATE = 0.05
FIRST_LENGTH_RATE = 0.25
# What an image or a sound stands for, as no byte of it is text.
TOKENS_PER_ATTACHMENT = 1024
_SEMICOLON = 59
_BASE64 = b";base64,"
_ATTACHMENT = re.compile(rb";base64,[A-Za-z0-9+/=]*")
_TOKEN_IDS = re.compile(rb"[\[\s]*\[\s*[0-9]")


class Prompt:
    """`text_bytes` is 0 where the tokens do not follow from the size of a text."""

    __slots__ = ("text_bytes", "tokens")

    def __init__(self, tokens: int, text_bytes: int = 0) -> None:
        self.tokens = tokens
        self.text_bytes = text_bytes


class Length:
    """Of the answers to one tenant from one version: the running mean of their logarithms, and how far off it was."""

    __slots__ = ("count", "error", "mean_log", "tenant_id", "version_id")

    def __init__(self, tenant_id: str, version_id: str) -> None:
        self.tenant_id = tenant_id
        self.version_id = version_id
        self.mean_log = PRIOR_LOG_LENGTH
        self.error = 1.0
        self.count = 0

    @property
    def tokens(self) -> float:
        return exp(self.mean_log)

    def learn(self, output_tokens: int) -> None:
        surprise = log(output_tokens) - self.mean_log
        self.error += max(ERROR_RATE, 1 / (self.count + 1)) * (abs(surprise) - self.error)
        self.count += 1
        self.mean_log += max(LENGTH_RATE, FIRST_LENGTH_RATE / self.count) * surprise


class Estimates:
    """Bounded: of versions and of tenants' lengths, the longest unused are forgotten."""

    def __init__(self) -> None:
        self.prompts: OrderedDict[str, Line] = OrderedDict()
        self.lengths: OrderedDict[tuple[str, str], Length] = OrderedDict()

    def measure(self, version_id: str, found: Peek, text: Sequence[bytes], body_bytes: int) -> Prompt:
        """Exact for a prompt of token ids. `text` is as `prompt_text` gives it."""
        ids = found.prompt or found.input
        if ids and _TOKEN_IDS.match(ids):
            return Prompt(bytes(ids).count(b",") + 1)
        size = 0
        files: list[bytes] = []
        for part in text:
            size += len(part)
            # The search for one letter is many times faster, and most texts have none.
            if _SEMICOLON in part and part.find(_BASE64) >= 0:
                files += _ATTACHMENT.findall(part)
        if files:
            size -= sum(map(len, files))
            return Prompt(self._expect(version_id, size) + len(files) * TOKENS_PER_ATTACHMENT)
        size = size or body_bytes
        return Prompt(self._expect(version_id, size), size)

    def output_tokens(self, tenant_id: str, version_id: str, limit: int | None) -> float:
        length = self.lengths.get((tenant_id, version_id))
        expected = length.tokens if length is not None else exp(PRIOR_LOG_LENGTH)
        return expected if limit is None else max(1.0, min(expected, limit))

    def learn_prompt(self, version_id: str, text_bytes: int, tokens: int) -> None:
        self._line(version_id).learn(text_bytes, tokens)

    def knows_prompts(self, version_id: str) -> bool:
        line = self.prompts.get(version_id)
        return line is not None and line.count >= WELL_KNOWN_AFTER

    def learn_length(self, tenant_id: str, version_id: str, tokens: int) -> None:
        if tokens <= 0:
            return
        key = (tenant_id, version_id)
        length = self.lengths.get(key)
        if length is None:
            length = self.lengths[key] = Length(tenant_id, version_id)
            if len(self.lengths) > MAX_LENGTHS:
                self.lengths.popitem(last=False)
        self.lengths.move_to_end(key)
        length.learn(tokens)

    def _expect(self, version_id: str, text_bytes: int) -> int:
        return int(self._line(version_id).expect(text_bytes) + 0.5)

    def _line(self, version_id: str) -> Line:
        line = self.prompts.get(version_id)
        if line is None:
            line = self.prompts[version_id] = Line(is_flat=False, prior=PRIOR_TOKENS)
            if len(self.prompts) > MAX_VERSIONS:
                self.prompts.popitem(last=False)
        return line


def prompt_text(found: Peek) -> list[bytes]:
    """The parts of the body that are the prompt, in the order in which templates put them; JSON as it came."""
    parts = (found.tools, found.system, found.instructions, found.messages, found.prompt, found.input)
    return [bytes(part) for part in parts if part]

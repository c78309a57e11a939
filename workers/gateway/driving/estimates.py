"""What is expected of a request before it runs: tokens of its prompt, tokens of its answer. Learned from usage."""

import re
from collections import OrderedDict
from collections.abc import Sequence
from math import exp, log
from typing import TYPE_CHECKING

from workers.contracts.settlement import Used
from workers.gateway.driving.lines import ERROR_RATE, Line
from workers.gateway.payload.attachments import NOTHING_ATTACHED, Attached, find_attached
from workers.gateway.payload.bodies import Peek

if TYPE_CHECKING:
    from workers.gateway.driving.terms import Terms

MAX_LENGTHS = 10_000
MAX_VERSIONS = 1000
# A version of which nothing is known: a chat template's few tokens, and four bytes to a token.
PRIOR_TOKENS = ((256.0, 72.0), (4096.0, 1032.0))
WELL_KNOWN_AFTER = 64
# Where prompts are well known one in so many is enough to notice a change.
LEARN_EACH = 8
PRIOR_LOG_LENGTH = 5.0
LENGTH_RATE = 0.05
FIRST_LENGTH_RATE = 0.25
ATTACHMENT_RATE = 0.2
_TOKEN_IDS = re.compile(rb"[\[\s]*\[\s*[0-9]")


class Prompt:
    """`text_bytes` is 0 where tokens do not follow from the size of a text. `attached_tokens` are among `tokens`."""

    __slots__ = ("attached", "attached_tokens", "text_bytes", "tokens")

    def __init__(
        self, tokens: int, text_bytes: int = 0, attached: Attached = NOTHING_ATTACHED, attached_tokens: int = 0
    ) -> None:
        self.tokens = tokens
        self.text_bytes = text_bytes
        self.attached = attached
        self.attached_tokens = attached_tokens


UNMEASURED = Prompt(0)


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
        self.attachments: OrderedDict[str, float] = OrderedDict()
        self.lengths: OrderedDict[tuple[str, str], Length] = OrderedDict()

    def measure(self, version_id: str, found: Peek, text: Sequence[bytes], body_bytes: int) -> Prompt:
        """Exact for a prompt of token ids. `text` is as `prompt_text` gives it."""
        ids = found.prompt or found.input
        if ids and _TOKEN_IDS.match(ids):
            return Prompt(bytes(ids).count(b",") + 1)
        size = sum(map(len, text))
        attached = find_attached(text[1:] if found.tools else text)  # tools only describe
        if attached.count:
            tokens = self._attached_tokens(version_id, attached)
            return Prompt(self._expect(version_id, size - attached.size_bytes) + tokens, 0, attached, tokens)
        size = size or body_bytes
        return Prompt(self._expect(version_id, size), size)

    def output_tokens(self, tenant_id: str, version_id: str, limit: int | None) -> float:
        length = self.lengths.get((tenant_id, version_id))
        expected = length.tokens if length is not None else exp(PRIOR_LOG_LENGTH)
        return expected if limit is None else max(1.0, min(expected, limit))

    def learn(self, tenant_id: str, terms: "Terms", used: Used) -> None:
        """From what the engine counted."""
        version_id, prompt = terms.version_id, terms.prompt
        self.learn_length(tenant_id, version_id, used.output_tokens // terms.choices)
        is_due = terms.request.request_id % LEARN_EACH == 0 or not self.knows_prompts(version_id)
        if used.input_tokens and (is_due or prompt.attached.count):
            self.learn_input(version_id, prompt, used.input_tokens)

    def learn_prompt(self, version_id: str, text_bytes: int, tokens: int) -> None:
        self._line(version_id).learn(text_bytes, tokens)

    def learn_input(self, version_id: str, prompt: Prompt, tokens: int) -> None:
        """From an engine's count of it."""
        if prompt.attached.count:
            self._learn_attached(version_id, prompt, tokens)
        elif prompt.text_bytes:
            self.learn_prompt(version_id, prompt.text_bytes, tokens)

    def _learn_attached(self, version_id: str, prompt: Prompt, tokens: int) -> None:
        """What the text does not account for is what was attached: so much each."""
        each = max(0, tokens - (prompt.tokens - prompt.attached_tokens)) / prompt.attached.count
        known = self.attachments.pop(version_id, each)
        self.attachments[version_id] = known + ATTACHMENT_RATE * (each - known)
        if len(self.attachments) > MAX_VERSIONS:
            self.attachments.popitem(last=False)

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

    def _attached_tokens(self, version_id: str, attached: Attached) -> int:
        """None while the version's have not been seen: a guess must not refuse the request that would correct it."""
        return round(attached.count * self.attachments.get(version_id, 0.0))

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

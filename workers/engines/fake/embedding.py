"""One embedding request: prefills only, and vectors that follow from the text."""

from base64 import b64encode
from collections.abc import Callable
from struct import pack
from typing import Any

from workers.engines.fake.errors import APIError
from workers.engines.fake.generation import Reply
from workers.engines.fake.inputs import EmbeddingCall
from workers.engines.fake.model.sequence import Sequence
from workers.engines.fake.shapes import embedding_answer
from workers.engines.fake.words import seeded

OnEnd = Callable[["Embedding", str], None]


class Embedding:
    """Collects the prefills of one embedding call."""

    def __init__(self, sequences: list[Sequence], reply: Reply, answer: Callable[[], bytes], on_end: OnEnd) -> None:
        self.sequences = sequences
        self._remaining = len(sequences)
        self._reply = reply
        self._answer = answer
        self._on_end = on_end

    def progressed(self, sequence: Sequence, generated_tokens: int) -> None:  # noqa: ARG002 a Listener
        self._remaining -= 1
        if self._remaining == 0:
            self._reply.answer(200, self._answer())
            self._on_end(self, "stop")

    def fail(self, error: APIError) -> None:
        self._reply.answer(error.status, error.encode())
        self._on_end(self, "error")

    def abandon(self) -> None:
        self._on_end(self, "abort")


def answer_embeddings(head: dict[str, Any], call: EmbeddingCall, dimensions: int) -> bytes:
    vectors = [vector_of(tokens, dimensions) for tokens in call.inputs]
    embeddings = [_base64(vector) for vector in vectors] if call.is_base64 else vectors
    return embedding_answer(head, embeddings, sum(map(len, call.inputs)))


def vector_of(tokens: list[str], dimensions: int) -> list[float]:
    """Of length one, the same for the same text."""
    source = seeded("embedding", *tokens)
    values = [source.gauss(0, 1) for _ in range(dimensions)]
    length = sum(value * value for value in values) ** 0.5
    return [value / length for value in values]


def _base64(vector: list[float]) -> str:
    return b64encode(pack(f"<{len(vector)}f", *vector)).decode()

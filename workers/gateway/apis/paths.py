"""Which paths go to an engine, and what is to know of each."""

from msgspec import Struct

from workers.gateway.apis.anthropic import Anthropic
from workers.gateway.apis.interface import API
from workers.gateway.apis.openai import Audio, OpenAI
from workers.gateway.apis.responses import Responses


class EnginePath(Struct, frozen=True, kw_only=True, eq=False):
    """`operation` is OpenTelemetry's gen_ai.operation.name. All take POST and name a model.

    `asks_for_usage`: a stream tells its usage only if asked. `is_metered`: whether it costs anything.
    `takes_priority`: vLLM knows a field `priority` there. `is_form`: the model is a field of a multipart form, not of a
    JSON object. `task`: which models do it; "" for all. `text_mark`: what stands before the text in an event of a
    stream that another engine can continue. `limit_fields`: where engines look there for the most a choice may have, in
    their order; what stands in others they pass over, and so must who reserves. `has_conversations`: its messages are a
    list of chats, each of which is answered.
    """

    operation: str
    api: API
    asks_for_usage: bool = False
    is_metered: bool = True
    takes_priority: bool = False
    is_form: bool = False
    task: str = ""
    text_mark: bytes = b""
    limit_fields: tuple[str, ...] = ("max_tokens",)
    has_conversations: bool = False

    @property
    def generates(self) -> bool:
        """Whether an answer is text that was generated, and no vectors, whose bytes say nothing of tokens."""
        return self.task != "embed"

    @property
    def is_chat(self) -> bool:
        return self.operation == "chat"


CHAT_TARGET = b"/v1/chat/completions"
TOKENIZE_TARGET = b"/tokenize"
CHAT_TEXT_MARK = b'"delta":{"content":"'
OPENAI = OpenAI()
_ANTHROPIC = Anthropic()
_CHAT = EnginePath(
    operation="chat",
    api=OPENAI,
    asks_for_usage=True,
    takes_priority=True,
    task="generate",
    text_mark=CHAT_TEXT_MARK,
    limit_fields=("max_completion_tokens", "max_tokens"),
)
# vLLM's own, which no other engine has: it never streams.
_CHATS = EnginePath(
    operation="chat",
    api=OPENAI,
    takes_priority=True,
    task="generate",
    limit_fields=("max_completion_tokens", "max_tokens"),
    has_conversations=True,
)
_COMPLETION = EnginePath(
    operation="text_completion",
    api=OPENAI,
    asks_for_usage=True,
    takes_priority=True,
    task="generate",
    text_mark=b'"text":"',
)
_RESPONSES = EnginePath(
    operation="generate_content",
    api=Responses(),
    takes_priority=True,
    task="generate",
    limit_fields=("max_output_tokens",),
)
_EMBEDDING = EnginePath(operation="embeddings", api=OPENAI, takes_priority=True, task="embed")
_POOLING = EnginePath(operation="pooling", api=OPENAI, task="embed")
_RERANK = EnginePath(operation="rerank", api=OPENAI, task="embed")
_SCORE = EnginePath(operation="score", api=OPENAI, task="embed")
_TOKENIZE = EnginePath(operation="tokenize", api=OPENAI, is_metered=False)
_AUDIO = EnginePath(operation="transcribe", api=Audio(), is_form=True)

METHOD = b"POST"
# Of what no engine is asked for.
NO_ENGINE = EnginePath(operation="", api=OPENAI, is_metered=False)
ENGINE_PATHS: dict[bytes, EnginePath] = {
    CHAT_TARGET: _CHAT,
    CHAT_TARGET + b"/batch": _CHATS,
    b"/v1/completions": _COMPLETION,
    b"/v1/responses": _RESPONSES,
    b"/v1/messages": EnginePath(operation="chat", api=_ANTHROPIC, task="generate"),
    b"/v1/messages/count_tokens": EnginePath(operation="tokenize", api=_ANTHROPIC, is_metered=False),
    b"/v1/embeddings": _EMBEDDING,
    b"/v1/rerank": _RERANK,
    b"/v2/rerank": _RERANK,
    b"/rerank": _RERANK,
    b"/v1/score": _SCORE,
    b"/score": _SCORE,
    b"/pooling": _POOLING,
    b"/classify": _POOLING,
    TOKENIZE_TARGET: _TOKENIZE,
    b"/detokenize": _TOKENIZE,
    b"/v1/audio/transcriptions": _AUDIO,
    b"/v1/audio/translations": _AUDIO,
}


def api_of(path: bytes) -> API:
    """Whose errors a client expects there."""
    known = ENGINE_PATHS.get(path)
    return known.api if known is not None else OPENAI

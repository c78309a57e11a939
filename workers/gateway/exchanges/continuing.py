"""A stream that its engine broke off, continued by another engine from the prompt plus the text that has gone out.

The client sees one stream: the same id and time of creation, the role once, and counts that go on. Where the text alone
does not say what to go on from (several choices, logprobs, a structure or tool call under way, penalties on what was
generated), nothing is continued.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from workers.gateway.apis.interface import AnswerStream
from workers.gateway.attempts.asking import Question
from workers.gateway.attempts.attempt import Attempt
from workers.gateway.attempts.engines import Engine
from workers.gateway.attempts.reading import open_filter
from workers.gateway.events.event_stream import EVENT_END
from workers.gateway.exchanges.continued_stream import ContinuedStream, shown_usage
from workers.gateway.http.call import Asker
from workers.gateway.payload.bodies import Usage

_DATA = b"data: "
_DONE = b"data: [DONE]\n\n"
_NEUTRAL = frozenset((b"null", b"false", b"0", b"0.0", b"[]", b"{}", b'""'))
# What makes the rest depend on more than the text, or the shape of the stream on more than its events.
_NOT_CONTINUED = (
    "audio", "echo", "frequency_penalty", "functions", "guided_choice", "guided_decoding_backend", "guided_grammar",
    "guided_json", "guided_regex", "logits_processors", "modalities", "presence_penalty", "prompt_embeds",
    "prompt_logprobs", "return_token_ids", "return_tokens_as_token_ids", "structured_outputs", "suffix",
    "thinking_token_budget", "use_beam_search",
)  # fmt: skip

_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_event = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.encode


class _Message(Struct):
    role: str = ""
    content: Any = None
    tool_calls: Any = None


class Continuation(Struct, eq=False):
    """`body` asks for the rest. `text` is what has gone out, as it stands between the quotes of a JSON string.

    `is_complete`: all was generated, and there is nothing to ask for. `first` are the fields of the first event.
    """

    body: bytes
    text: bytes
    usage: Usage
    first: dict[str, Any]
    is_chat: bool
    shows_usage: bool
    has_finished: bool
    is_complete: bool

    @property
    def generated_tokens(self) -> int:
        return self.usage.completion_tokens or 0

    def begin_attempt(self, question: Question, engine: Engine, asker: Asker) -> Attempt:
        attempt = Attempt(engine, question.for_engine(engine, self.body), asker)
        attempt.begin()
        return attempt

    def open_stream(self, question: Question, engine: Engine) -> ContinuedStream:
        rename = (question.served_name, question.public_model) if question.is_renamed else None
        return ContinuedStream(open_filter(question, engine, rename), self.first, self.text, self.usage)

    def ending(self) -> bytes:
        """What is missing of a stream whose text is complete."""
        events = [] if self.has_finished else [self._event({"choices": [self._finished_choice()]})]
        if self.shows_usage:
            events.append(self._event({"choices": [], "usage": shown_usage(self.usage)}))
        return b"".join(events) + _DONE

    def _finished_choice(self) -> dict[str, Any]:
        content: dict[str, Any] = {"delta": {}} if self.is_chat else {"text": ""}
        return {"index": 0} | content | {"logprobs": None, "finish_reason": "length"}

    def _event(self, fields: dict[str, Any]) -> bytes:
        head = {name: self.first[name] for name in ("id", "object", "created", "model") if name in self.first}
        return _DATA + _encode(head | fields) + EVENT_END


def continue_from(question: Question, stream: AnswerStream) -> Continuation | None:
    """None where the rest would not be what the engine would have sent."""
    text, usage = stream.text, stream.usage
    if text is None or usage is None or not question.path.text_mark:
        return None
    try:
        fields: dict[str, Any] = _decode_fields(question.request.body)
        first = _decode_event(stream.first_event.removeprefix(_DATA)) if stream.first_event else {}
        limit = _limit_of(fields)
        generated_tokens = usage.completion_tokens or 0
        is_complete = stream.has_finished or (limit is not None and generated_tokens >= limit)
        if not _is_plain(fields):
            return None
        asked = fields if is_complete else _asking_on(fields, bytes(text), generated_tokens, question)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if asked is None:
        return None
    return Continuation(
        body=_encode(asked),
        text=bytes(text),
        usage=usage,
        first=first,
        is_chat=question.path.is_chat,
        shows_usage=question.peek.has_stream_option("include_usage") and not stream.has_told_usage,
        has_finished=stream.has_finished,
        is_complete=is_complete,
    )


def _is_plain(fields: dict[str, Any]) -> bool:
    if not all(_is_neutral(fields, name) for name in _NOT_CONTINUED):
        return False
    wants_logprobs = bytes(fields.get("logprobs", b"null")) not in (b"null", b"false")
    is_one = bytes(fields.get("best_of", b"1")) in (b"1", b"null")
    response_format = msgspec.json.decode(fields.get("response_format", b"null"))
    is_text = response_format is None or response_format == {"type": "text"}
    uses_tools = not _is_neutral(fields, "tools") and bytes(fields.get("tool_choice", b"")) != b'"none"'
    return is_one and is_text and not wants_logprobs and not uses_tools


def _is_neutral(fields: dict[str, Any], name: str) -> bool:
    return bytes(fields.get(name, b"null")) in _NEUTRAL


def _limit_of(fields: dict[str, Any]) -> int | None:
    values = [fields[name] for name in ("max_completion_tokens", "max_tokens") if name in fields]
    limits = [msgspec.json.decode(value) for value in values]
    return next((limit for limit in limits if isinstance(limit, int)), None)


def _asking_on(fields: dict[str, Any], text: bytes, generated_tokens: int, question: Question) -> dict[str, Any] | None:
    """The fields with the text as the beginning of the answer, and with limits for the rest alone."""
    is_chat = question.path.is_chat
    asked = _after_chat(fields, text) if is_chat else _after_prompt(fields, text)
    if asked is None or (not is_chat and question.output_limit is None):
        return None  # how much completions give unasked is the engine's own affair
    for name, least in (("max_tokens", 1), ("max_completion_tokens", 1), ("min_tokens", 0)):
        value = msgspec.json.decode(fields.get(name, b"null"))
        if isinstance(value, int):
            asked[name] = max(value - generated_tokens, least)
    return asked


def _after_prompt(fields: dict[str, Any], text: bytes) -> dict[str, Any] | None:
    """Of one prompt as text: ids cannot be gone on from with text."""
    prompt = bytes(fields.get("prompt", b"null")).strip()
    if not prompt.startswith(b'"'):
        return None
    return fields | {"prompt": Raw(prompt[:-1] + text + b'"')}


def _after_chat(fields: dict[str, Any], text: bytes) -> dict[str, Any] | None:
    """VLLM continues the last message where it is told to, instead of opening a new one."""
    messages = _decode_list(fields["messages"])
    if not text:
        return dict(fields)
    if bytes(fields.get("continue_final_message", b"false")) == b"true":
        return _after_prefill(fields, messages, text)
    if bytes(fields.get("add_generation_prompt", b"true")) == b"false":
        return None
    answer = Raw(b'{"role":"assistant","content":"' + text + b'"}')
    return fields | {
        "messages": [*messages, answer],
        "add_generation_prompt": False,
        "continue_final_message": True,
    }


def _after_prefill(fields: dict[str, Any], messages: list[Raw], text: bytes) -> dict[str, Any] | None:
    """The client has begun the answer itself."""
    begun = msgspec.json.decode(messages[-1], type=_Message) if messages else _Message()
    if begun.role != "assistant" or not isinstance(begun.content, str) or begun.tool_calls:
        return None
    content = _encode(begun.content)[:-1] + text + b'"'
    return fields | {"messages": [*messages[:-1], Raw(b'{"role":"assistant","content":' + content + b"}")]}

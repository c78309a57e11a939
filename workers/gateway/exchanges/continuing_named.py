"""An answer of Messages or Responses that its engine broke off, gone on with by another engine as a chat.

Neither API can be asked to go on from half an answer everywhere, and neither counts along. A chat can and does, and
vLLM makes a chat of both. So the rest is asked for as a chat that the text begins, and told in the words of the API.
How many tokens the text has is asked first, so that the rest is as long as it may be.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from workers.gateway.apis.events import NamedEvents
from workers.gateway.apis.interface import AnswerStream
from workers.gateway.apis.paths import CHAT_TARGET, TOKENIZE_TARGET
from workers.gateway.apis.spoken import Spoken, SpokenMessage, SpokenResponse
from workers.gateway.apis.voices import End, MessageVoice, ResponseVoice, Voice
from workers.gateway.attempts.asking import Question
from workers.gateway.attempts.attempt import Attempt
from workers.gateway.attempts.counting import CountedAttempt
from workers.gateway.attempts.engines import Engine
from workers.gateway.attempts.reading import open_chat
from workers.gateway.events.event_stream import EVENT_END
from workers.gateway.events.streams import StreamFilter
from workers.gateway.exchanges.as_chat import chat_of_message, chat_of_response
from workers.gateway.http.call import Asker
from workers.gateway.payload.bodies import Usage

_DATA = b"data: "
_DONE = b"[DONE]"
_COUNTING = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.encode


class NamedContinuation:
    """`chat` asks for the rest but for how long that may be. `input_tokens` is the prompt's count, None if unknown.

    `generated_tokens` is a lower bound until they have been counted: one for each event.
    """

    def __init__(self, chat: dict[str, Any], voice: Voice, stream: AnswerStream, limit: int | None) -> None:
        self._chat = chat
        self._voice = voice
        self._limit = limit
        self._events = stream.events_with_output
        self._input_tokens = stream.input_tokens
        known = stream.generated_tokens if isinstance(stream, RevoicedStream) else self._events
        self.generated_tokens = max(known, voice.spoken.tokens)
        is_full = limit is not None and self.generated_tokens >= limit
        self._finish_reason = "length" if is_full else "stop"
        self.is_complete = is_full or voice.spoken.closings > 0

    def begin_attempt(self, question: Question, engine: Engine, asker: Asker) -> "Attempt | CountedAttempt":
        text = self._text()
        if not text:
            attempt = Attempt(engine, self._ask(question, engine, 0), asker)
            attempt.begin()
            return attempt
        body = {"model": question.served_name, "prompt": text, "add_special_tokens": False}
        message = question.for_engine_at(engine, TOKENIZE_TARGET, _encode(body))
        counted = CountedAttempt(engine, message, asker, lambda count: self._ask(question, engine, count))
        counted.begin()
        return counted

    def open_stream(self, question: Question, engine: Engine) -> "RevoicedStream":
        del question
        return RevoicedStream(open_chat(engine), self._voice, self)

    def ending(self) -> bytes:
        usage = Usage.of(self._input_tokens, self.generated_tokens)
        return self._voice.close(End(self._finish_reason, None, usage))

    @property
    def events_before(self) -> int:
        return self._events

    @property
    def input_tokens(self) -> int | None:
        return self._input_tokens

    def _text(self) -> str:
        text: str = msgspec.json.decode(b'"' + bytes(self._voice.spoken.text or b"") + b'"')
        return text

    def _ask(self, question: Question, engine: Engine, count: int) -> bytes:
        """The whole request for the rest; empty if there is none. `count` is how many tokens the text has."""
        self.generated_tokens = self._voice.spoken.tokens = max(count, self._events) if count else 0
        if self._limit is not None and self.generated_tokens >= self._limit:
            return b""
        chat = self._chat | _COUNTING | {"model": question.served_name}
        if engine.endpoint.shape.has_priorities:
            chat["priority"] = question.rank
        if count:
            answer = {"role": "assistant", "content": self._text()}
            chat |= {"add_generation_prompt": False, "continue_final_message": True}
            chat["messages"] = [*self._chat["messages"], answer]
        if self._limit is not None:
            chat["max_tokens"] = self._limit - self.generated_tokens
        return question.for_engine_at(engine, CHAT_TARGET, _encode(chat))


class RevoicedStream:
    """The chat of the second engine, in the words of the first one's API."""

    first_event = b""
    has_first_token = True

    def __init__(self, inner: StreamFilter, voice: Voice, before: NamedContinuation) -> None:
        self._inner = inner
        self._voice = voice
        self._before = before
        self._finish_reason = ""
        self._stop: str | None = None
        self._is_closed = False

    @property
    def fingerprint(self) -> bytes | None:
        return self._inner.fingerprint

    @property
    def spoken(self) -> Spoken | None:
        return self._voice.spoken if self.text is not None else None

    @property
    def voice(self) -> Voice:
        return self._voice

    @property
    def generated_tokens(self) -> int:
        usage = self._inner.usage
        return self._before.generated_tokens + ((usage.completion_tokens or 0) if usage is not None else 0)

    @property
    def events_with_output(self) -> int:
        return self._before.events_before + self._inner.events_with_output

    @property
    def has_error(self) -> bool:
        return self._inner.has_error

    @property
    def failed_at_once(self) -> bool:
        return False

    @property
    def has_finished(self) -> bool:
        return bool(self._finish_reason)

    @property
    def has_ended(self) -> bool:
        return self._inner.has_ended

    @property
    def has_told_usage(self) -> bool:
        return self._inner.has_told_usage

    @property
    def last_data(self) -> bytes:
        return self._voice.spoken.last

    @property
    def text(self) -> bytearray | None:
        return self._voice.spoken.text if self._inner.text is not None else None

    @property
    def input_tokens(self) -> int | None:
        """The second engine's prompt is the client's and the text."""
        usage = self._inner.usage
        if self._before.input_tokens is not None or usage is None:
            return self._before.input_tokens
        return max((usage.prompt_tokens or 0) - self._before.generated_tokens, 0)

    @property
    def usage(self) -> Usage | None:
        if self.input_tokens is None:
            return None
        return Usage.of(self.input_tokens, self.generated_tokens)

    @property
    def is_too_long(self) -> bool:
        return self._inner.is_too_long

    def feed(self, chunk: bytes) -> bytes:
        return self._told(self._inner.feed(chunk))

    def finish(self) -> bytes:
        told = self._told(self._inner.finish())
        return told + (self._close() if self._finish_reason else b"")

    def finish_whole_events(self) -> bytes:
        return self._told(self._inner.finish_whole_events())

    def release_error(self) -> bytes:
        """The API's own word for it follows."""
        self._inner.release_error()
        return b""

    def _told(self, events: bytes) -> bytes:
        datas = [event[len(_DATA) :] for event in events.split(EVENT_END) if event.startswith(_DATA)]
        return b"".join([self._close() if data == _DONE else self._say(_decode(data)) for data in datas])

    def _say(self, event: dict[str, Any]) -> bytes:
        choices = event.get("choices")
        if not choices:
            return b""
        choice = choices[0]
        if choice.get("finish_reason"):
            stop = choice.get("stop_reason")
            self._finish_reason, self._stop = choice["finish_reason"], stop if isinstance(stop, str) else None
        text = choice.get("delta", {}).get("content")
        return self._voice.say(text) if text else b""

    def _close(self) -> bytes:
        if self._is_closed:
            return b""
        self._is_closed = True
        return self._voice.close(End(self._finish_reason or "stop", self._stop, self.usage or Usage()))


def continue_named(question: Question, stream: AnswerStream) -> NamedContinuation | None:
    """None where the rest would not be what the engine would have sent."""
    if not isinstance(stream, NamedEvents | RevoicedStream) or stream.spoken is None or not stream.spoken.opening:
        return None
    try:
        asked = _decode(question.request.body)
        voice = stream.voice if isinstance(stream, RevoicedStream) else _voice_of(stream.spoken, question)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    chat = _AS_CHAT[type(stream.spoken)](asked)
    return NamedContinuation(chat, voice, stream, question.output_limit) if chat is not None else None


def _voice_of(spoken: Spoken, question: Question) -> Voice:
    if isinstance(spoken, SpokenResponse):
        return ResponseVoice(spoken, question.public_model)
    assert isinstance(spoken, SpokenMessage), "there are two kinds"  # noqa: S101 - an invariant
    return MessageVoice(spoken)


_AS_CHAT: dict[type[Spoken], Callable[[dict[str, Any]], dict[str, Any] | None]] = {
    SpokenMessage: chat_of_message,
    SpokenResponse: chat_of_response,
}

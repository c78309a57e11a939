"""The events of a second engine, as if the first had gone on sending. Seldom used, so each event is decoded."""

from typing import Any

import msgspec

from workers.gateway.apis.interface import AnswerStream
from workers.gateway.events.event_stream import EVENT_END
from workers.gateway.payload.bodies import Usage

_DATA = b"data: "

_decode_event = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.encode


class ContinuedStream:
    """What the second engine sends. `first` are the first event's fields; `text` and `usage` are what went before."""

    last_data = b""  # events have no numbers here

    def __init__(self, inner: AnswerStream, first: dict[str, Any], text: bytes, usage: Usage) -> None:
        self._inner = inner
        self._first = first
        self._text = text
        self._usage = usage
        self.first_event = _DATA + _encode(first)

    @property
    def fingerprint(self) -> bytes | None:
        return self._inner.fingerprint

    @property
    def events_with_output(self) -> int:
        return self._inner.events_with_output

    @property
    def has_error(self) -> bool:
        return self._inner.has_error

    @property
    def failed_at_once(self) -> bool:
        return False

    @property
    def has_finished(self) -> bool:
        return self._inner.has_finished

    @property
    def has_ended(self) -> bool:
        return self._inner.has_ended

    @property
    def has_told_usage(self) -> bool:
        return self._inner.has_told_usage

    @property
    def has_first_token(self) -> bool:
        return True

    @property
    def input_tokens(self) -> int | None:
        return self._usage.prompt_tokens

    @property
    def text(self) -> bytes | None:
        return self._text + self._inner.text if self._inner.text is not None else None

    @property
    def usage(self) -> Usage:
        """The prompt is the client's, and the output that of all engines together."""
        before, now = self._usage, self._inner.usage
        generated = (before.completion_tokens or 0) + ((now.completion_tokens or 0) if now is not None else 0)
        return Usage(before.prompt_tokens, generated, before.prompt_tokens_details)

    @property
    def is_too_long(self) -> bool:
        return self._inner.is_too_long

    def feed(self, chunk: bytes) -> bytes:
        return self._as_one(self._inner.feed(chunk))

    def finish(self) -> bytes:
        return self._as_one(self._inner.finish())

    def finish_whole_events(self) -> bytes:
        return self._as_one(self._inner.finish_whole_events())

    def release_error(self) -> bytes:
        return self._inner.release_error()

    def _as_one(self, events: bytes) -> bytes:
        return b"".join([self._goes_on(event) for event in events.split(EVENT_END) if event])

    def _goes_on(self, event: bytes) -> bytes:
        if not event.startswith(_DATA + b"{"):
            return event + EVENT_END
        try:
            fields = _decode_event(event[len(_DATA) :])
        except msgspec.DecodeError:
            return event + EVENT_END
        if _opens_again(fields):
            return b""
        for name in ("id", "created"):
            if name in fields and name in self._first:
                fields[name] = self._first[name]
        if isinstance(fields.get("usage"), dict):
            fields["usage"] = self._summed(fields["usage"])
        if isinstance(fields.get("timings"), dict):
            fields["timings"] |= self._timings()
        return _DATA + _encode(fields) + EVENT_END

    def _timings(self) -> dict[str, int]:
        usage = self.usage
        uncached_tokens = (usage.prompt_tokens or 0) - usage.cached_tokens
        generated_tokens = usage.completion_tokens or 0
        return {"cache_n": usage.cached_tokens, "prompt_n": uncached_tokens, "predicted_n": generated_tokens}

    def _summed(self, shown: dict[str, Any]) -> dict[str, Any]:
        """What the second engine found in its cache is of a prompt that is not the client's."""
        before = self._usage
        generated = (before.completion_tokens or 0) + (shown.get("completion_tokens") or 0)
        if isinstance(shown.get("prompt_tokens_details"), dict):
            cached = {"cached_tokens": before.cached_tokens}
            shown = shown | {"prompt_tokens_details": shown["prompt_tokens_details"] | cached}
        return shown | shown_usage(Usage(before.prompt_tokens, generated))


def _opens_again(fields: dict[str, Any]) -> bool:
    """The role comes once. Takes it out, and says whether nothing is left."""
    choices = fields.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    delta = choice.get("delta")
    if not isinstance(delta, dict) or delta.pop("role", None) is None:
        return False
    return not any(delta.values()) and choice.get("finish_reason") is None


def shown_usage(usage: Usage) -> dict[str, Any]:
    prompt_tokens, completion_tokens = usage.prompt_tokens or 0, usage.completion_tokens or 0
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }

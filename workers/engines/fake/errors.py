"""vLLM's refusals, word for word as recorded from vLLM 0.32."""

from collections.abc import Mapping
from typing import Any

import msgspec


class APIError(Exception):
    """What vLLM answers with `{"error": …}`."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body: dict[str, dict[str, Any]] = {
            "error": {"message": message, "type": kind, "param": param, "code": status}
        }

    def encode(self) -> bytes:
        return msgspec.json.encode(self.body)


class MessagesError(APIError):
    """The same in Anthropic's shape, which keeps type and message."""

    def encode(self) -> bytes:
        error = {name: self.body["error"][name] for name in ("type", "message")}
        return msgspec.json.encode({"type": "error", "error": error})


def for_messages(error: APIError) -> MessagesError:
    content: dict[str, Any] = error.body["error"]
    return MessagesError(error.status, content["type"], content["message"], content["param"])


def bad_value(message: str, parameter: str, value: Any) -> APIError:
    text = f"{message} (parameter={parameter}, value={value})"
    return APIError(400, "BadRequestError", text, parameter)


def bad_request(message: str, param: str | None = None) -> APIError:
    return APIError(400, "BadRequestError", message, param)


def unknown_model(model: str, served: str) -> APIError:
    return APIError(404, "NotFoundError", f"The model `{model}` does not exist. Valid aliases: {served}.", "model")


def unsupported_media_type() -> APIError:
    message = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
    return APIError(400, "Bad Request", message)


def engine_busy() -> APIError:
    advice = "Please try again later or on a different instance."
    message = f"The engine is currently busy and cannot accept new requests. {advice}"
    return APIError(503, "Service Unavailable", message)


def engine_dead() -> APIError:
    message = "EngineCore encountered an issue. See stack trace (above) for the root cause."
    return APIError(500, "InternalServerError", message)


def internal_error() -> APIError:
    return APIError(500, "InternalServerError", "Internal server error")


def invalid_fields(problems: list[dict[str, Any]]) -> APIError:
    """`problems` as pydantic gives them: type, loc, msg, input and perhaps ctx."""
    count = f"{len(problems)} validation error{'s' if len(problems) > 1 else ''}"
    lines = [f"\n  {problem}" for problem in problems]
    return APIError(400, "Bad Request", f"{count}:{''.join(lines)}", problems[0]["loc"])


def describe_input(value: Any) -> Any:
    """Whole objects are not echoed."""
    if isinstance(value, Mapping):
        return f"<dict of {len(value)} items>"
    if isinstance(value, list):
        return f"<list of {len(value)} items>"
    return value


def too_long(limit_tokens: int, prompt_tokens: int) -> APIError:
    """The count stops one token past the limit, as vLLM's does."""
    counted = min(prompt_tokens, limit_tokens + 1)
    message = (
        f"This model's maximum context length is {limit_tokens} tokens. However, your prompt contains at least "
        f"{counted} input tokens, which exceeds this limit even without any output tokens. Please reduce the length "
        "of the input prompt."
    )
    return bad_value(message, "input_tokens", counted)

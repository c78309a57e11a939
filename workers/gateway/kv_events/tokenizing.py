"""Which tokens a prompt is: asked of an engine that serves it, off the request's path, one question at a time."""

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from workers.gateway.driving.estimates import prompt_text
from workers.gateway.driving.prefixes import BLOCK_BYTES
from workers.gateway.driving.watching import ask
from workers.gateway.http.engine_pool import EnginePool
from workers.gateway.kv_events.alignment import align, align_ids
from workers.gateway.kv_events.cached import name_blocks, root_name
from workers.gateway.payload.bodies import Peek, peek

_ANSWER_WITHIN_S = 5.0
# What of a chat makes the tokens of its prompt, and what of a completion; the rest is about the answer.
_OF_CHATS = (
    "messages", "tools", "add_generation_prompt", "continue_final_message", "add_special_tokens", "chat_template",
    "chat_template_kwargs", "mm_processor_kwargs", "media_io_kwargs",
)  # fmt: skip
_OF_COMPLETIONS = ("prompt", "add_special_tokens")
_FILES = (b'"image_url"', b'"input_audio"', b'"video_url"', b'"image"', b'"audio_url"')


class _Tokens(Struct):
    tokens: list[int]
    token_strs: list[str] | None = None


_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_ids = msgspec.json.Decoder(list[int]).decode
_decode_tokens = msgspec.json.Decoder(_Tokens).decode


async def name_text_blocks(pool: EnginePool, served_name: str, body: bytes, count: int, block_tokens: int) -> list[int]:
    """The names of the blocks of tokens in which the first text blocks end; of fewer than `count` where those end.

    Raises UpstreamError, TimeoutError and msgspec.DecodeError; nothing is known then.
    """
    found = peek(body)
    text = b"".join(prompt_text(found))
    ends = [(index + 1) * BLOCK_BYTES for index in range(count)]
    tokens, places = await _tokens_and_places(pool, served_name, body, found, text=text, ends=ends)
    salt = found.cache_salt
    names = list(name_blocks(root_name(None, [salt] if salt else None), tokens, block_tokens))
    # A block of text shorter than one of tokens stands for the first of those.
    blocks = [max(1, place // block_tokens) for place in places]
    return [names[number - 1] for number in blocks if number <= len(names)]


def is_translatable(body: bytes) -> bool:
    """A chat of text, or one prompt."""
    found = peek(body)
    return bool(found.prompt) != bool(found.messages) and not any(word in bytes(found.messages) for word in _FILES)


async def _tokens_and_places(
    pool: EnginePool, served_name: str, body: bytes, found: Peek, *, text: bytes, ends: Sequence[int]
) -> tuple[list[int], list[int]]:
    if found.prompt and bytes(found.prompt).lstrip().startswith(b"["):
        return _decode_ids(found.prompt), align_ids(text, ends)
    names = _OF_CHATS if found.messages else _OF_COMPLETIONS
    fields = {name: value for name, value in _decode_fields(body).items() if name in names}
    asked = msgspec.json.encode(fields | {"model": served_name, "return_token_strs": True})
    async with asyncio.timeout(_ANSWER_WITHIN_S):
        answer = _decode_tokens(await ask(pool, _request(pool, asked)))
    return answer.tokens, align(text, ends, answer.token_strs or [])


def _request(pool: EnginePool, body: bytes) -> bytes:
    head = b"POST /tokenize HTTP/1.1\r\nhost: %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % (pool.authority, len(body)) + body

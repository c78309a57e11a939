"""The authority in Valkey: authority.lua, called over one connection with a time-out."""

import asyncio
from pathlib import Path

import msgspec
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from workers.contracts.limits import EVENTS_KEY, MAX_EVENTS, PREFIX
from workers.gateway.limits.authority import Ask, Reply

TIMEOUT_S = 0.5
_SCRIPT = (Path(__file__).parent / "authority.lua").read_text()
_decode_reply = msgspec.msgpack.Decoder(Reply).decode


class AuthorityError(Exception):
    """It could not be asked; nobody knows whether it heard."""


class ValkeyAuthority:
    """`holder` is this process, and no other ever."""

    error = ""

    def __init__(self, url: str, *, holder: str, ttl_s: float, warm_s: float) -> None:
        self._arguments = (PREFIX, holder, int(ttl_s * 1000), int(warm_s * 1000))
        self._client = redis.asyncio.Redis.from_url(
            url,
            max_connections=2,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._digest = ""

    async def exchange(self, asks: list[Ask], events: list[bytes]) -> Reply:
        """Raises AuthorityError."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                if events:
                    await self._tell(events)
                return _decode_reply(await self._call(msgspec.msgpack.encode(asks)))
        except (RedisError, OSError, TimeoutError, msgspec.DecodeError) as error:
            raise AuthorityError(str(error)) from error

    async def close(self) -> None:
        await self._client.aclose()

    async def _call(self, asks: bytes) -> bytes:
        self._digest = self._digest or await self._client.script_load(_SCRIPT)
        try:
            answer: bytes = await self._client.evalsha(self._digest, 0, *self._arguments, asks)
        except NoScriptError:
            self._digest = ""
            raise
        return answer

    async def _tell(self, events: list[bytes]) -> None:
        """The newest are kept, for the control plane to fetch."""
        async with self._client.pipeline(transaction=False) as pipeline:
            pipeline.lpush(EVENTS_KEY, *events)
            pipeline.ltrim(EVENTS_KEY, 0, MAX_EVENTS - 1)
            await pipeline.execute()

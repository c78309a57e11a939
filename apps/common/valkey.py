"""Connections to Valkey, which holds nothing that cannot be rebuilt: callers go on without it."""

import asyncio
import logging
from functools import lru_cache

import redis
import redis.asyncio
from django.conf import settings
from django.db import transaction
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

WAKE_CHANNEL = "tokenyard.wake"
WAKE_LINKS = b"links"


@lru_cache(maxsize=1)
def blocking_client() -> redis.Redis:
    """Shared by the threads of a process; redis-py's pool hands each its own connection."""
    timeout_s = settings.VALKEY_TIMEOUT_S
    return redis.Redis.from_url(settings.VALKEY_URL, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)


def new_async_client() -> redis.asyncio.Redis:
    """For one event loop. Commands are bounded by the callers' own timeouts, so that a subscription may idle."""
    return redis.asyncio.Redis.from_url(
        settings.VALKEY_URL, socket_timeout=None, socket_connect_timeout=settings.VALKEY_TIMEOUT_S
    )


def wake_links_on_commit() -> None:
    transaction.on_commit(wake_links)


def wake_links() -> None:
    """Agent links look for news at once instead of at their next 2 s turn."""
    try:
        blocking_client().publish(WAKE_CHANNEL, WAKE_LINKS)
    except (RedisError, OSError) as error:
        log.warning("could not wake the agent links", extra={"error": str(error)})


async def wait_for_wakes(event: asyncio.Event) -> None:
    """Sets `event` at each wake, until it is cancelled or Valkey goes away."""
    client = new_async_client()
    try:
        async with client.pubsub() as subscription:
            await subscription.subscribe(WAKE_CHANNEL)
            async for _ in subscription.listen():
                event.set()
    finally:
        await client.aclose()

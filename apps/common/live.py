"""Live updates to browsers, one channel-layer group per topic; losing one only costs freshness.

A console consumer joins `group_of(topic)` and receives `{"type": "live.update", "topic": …, "payload": …}`.
"""

import asyncio
import logging
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import transaction
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

OVERVIEW = "overview"
DEPLOYMENTS = "deployments"
ROUTES = "routes"


def group_of(topic: str) -> str:
    return f"live.{topic}"


async def publish(topic: str, payload: dict[str, Any]) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    message = {"type": "live.update", "topic": topic, "payload": payload}
    try:
        async with asyncio.timeout(settings.VALKEY_TIMEOUT_S):
            await layer.group_send(group_of(topic), message)
    except (RedisError, OSError, TimeoutError) as error:
        log.warning("live update lost", extra={"topic": topic, "error": str(error)})


def publish_on_commit(topic: str, payload: dict[str, Any]) -> None:
    transaction.on_commit(lambda: async_to_sync(publish)(topic, payload))

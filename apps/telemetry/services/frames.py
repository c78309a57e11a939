"""Live values into Valkey, once a second for all nodes of a process: one pipeline, whatever their number."""

from collections.abc import Mapping

import msgspec
from redis.asyncio import Redis

from apps.telemetry.policies import NodeFrame, SeriesPoint
from apps.telemetry.selectors.frames import FRAMES_KEY, SERIES_KEY, SERIES_S

FRAME_TTL_S = 60


async def store_frames(client: Redis, frames: Mapping[str, NodeFrame]) -> None:
    """Frames by node id. Raises RedisError when Valkey is away; the next second's frames make up for it."""
    if not frames:
        return
    pipeline = client.pipeline(transaction=False)
    pipeline.hset(FRAMES_KEY, mapping={node_id: msgspec.json.encode(frame) for node_id, frame in frames.items()})
    pipeline.hexpire(FRAMES_KEY, FRAME_TTL_S, *frames)
    await pipeline.execute()


async def extend_series(client: Redis, point: SeriesPoint) -> None:
    """One point a second of each process that hears nodes. Raises RedisError when Valkey is away."""
    pipeline = client.pipeline(transaction=False)
    pipeline.zadd(SERIES_KEY, {msgspec.json.encode(point): point.at})
    pipeline.zremrangebyscore(SERIES_KEY, "-inf", point.at - SERIES_S)
    pipeline.expire(SERIES_KEY, SERIES_S)
    await pipeline.execute()

"""Live values into Valkey, once a second for all nodes of a process: one pipeline, whatever their number."""

from collections.abc import Mapping

import msgspec
from redis.asyncio import Redis

from apps.telemetry.policies import NodeFrame, point_of
from apps.telemetry.selectors.frames import FRAMES_KEY, SERIES_KEY

FRAME_TTL_S = 60
SERIES_POINTS = 900
SERIES_TTL_S = 1200


async def store_frames(client: Redis, frames: Mapping[str, NodeFrame]) -> None:
    """Frames by node id. Raises RedisError when Valkey is away; the next second's frames make up for it."""
    pipeline = client.pipeline(transaction=False)
    for node_id, frame in frames.items():
        series = SERIES_KEY.format(node_id=node_id)
        pipeline.hset(FRAMES_KEY, node_id, msgspec.json.encode(frame))
        pipeline.hexpire(FRAMES_KEY, FRAME_TTL_S, node_id)
        pipeline.rpush(series, msgspec.json.encode(point_of(frame)))
        pipeline.ltrim(series, -SERIES_POINTS, -1)
        pipeline.expire(series, SERIES_TTL_S)
    await pipeline.execute()

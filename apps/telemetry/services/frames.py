"""Live values into Valkey, once a second for all nodes of a process: one pipeline, whatever their number."""

from collections.abc import Mapping
from typing import Any

import msgspec
from redis.asyncio import Redis

from apps.telemetry.policies import NodeFrame, point_of
from apps.telemetry.selectors.frames import FRAMES_KEY, SERIES_KEY

FRAME_TTL_S = 60
SERIES_POINTS = 900
SERIES_TTL_S = 1200


async def store_frames(client: Redis, frames: Mapping[str, NodeFrame]) -> None:
    """Frames by node id. Raises RedisError when Valkey is away; the next second's frames make up for it."""
    if not frames:
        return
    pipeline = client.pipeline(transaction=False)
    pipeline.hset(FRAMES_KEY, mapping={node_id: msgspec.json.encode(frame) for node_id, frame in frames.items()})
    pipeline.hexpire(FRAMES_KEY, FRAME_TTL_S, *frames)
    for node_id, frame in frames.items():
        if frame.telemetry.gateway is not None:
            _extend_series(pipeline, SERIES_KEY.format(node_id=node_id), frame)
    await pipeline.execute()


def _extend_series(pipeline: Any, series: str, frame: NodeFrame) -> None:
    pipeline.rpush(series, msgspec.json.encode(point_of(frame)))
    pipeline.ltrim(series, -SERIES_POINTS, -1)
    pipeline.expire(series, SERIES_TTL_S)

"""Live values out of Valkey. With Valkey away everything is unknown: empty lists, None, never a zero."""

import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

import msgspec
from redis import Redis
from redis.exceptions import RedisError

from apps.common.valkey import blocking_client
from apps.telemetry.policies import NodeFrame, Overview, SeriesPoint, overview_of

log = logging.getLogger(__name__)

FRAMES_KEY = "tokenyard.frames"
SERIES_KEY = "tokenyard.series"
SERIES_S = 900

_decode_frame = msgspec.json.Decoder(NodeFrame).decode
_decode_point = msgspec.json.Decoder(SeriesPoint).decode


def list_frames() -> list[NodeFrame]:
    """The newest of each node, by node id; each leaves by itself a minute after its node fell silent."""
    values = _ask(lambda valkey: valkey.hgetall(FRAMES_KEY)) or {}
    return [_decode_frame(values[node_id]) for node_id in sorted(values)]


def get_frame(node_id: UUID) -> NodeFrame | None:
    value = _ask(lambda valkey: valkey.hget(FRAMES_KEY, str(node_id)))
    return _decode_frame(value) if value else None


def get_overview(*, now_s: float) -> Overview:
    return overview_of(list_frames(), now_s)


def list_series(*, since_s: float) -> list[SeriesPoint]:
    """Of every process that hears nodes, oldest first; none is older than SERIES_S."""
    values = _ask(lambda valkey: valkey.zrangebyscore(SERIES_KEY, since_s, "+inf")) or []
    return [_decode_point(value) for value in values]


def _ask(question: Callable[[Redis], Any]) -> Any:
    """None when Valkey is away."""
    try:
        return question(blocking_client())
    except (RedisError, OSError) as error:
        log.warning("live values are unknown", extra={"error": str(error)})
        return None

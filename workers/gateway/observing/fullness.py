"""The KV caches of each model's engines, for those who watch a gateway as they watch an engine."""

from collections.abc import Sequence
from statistics import fmean
from typing import TypeVar

from workers.engines.interface import EngineReading
from workers.gateway.attempts.engines import Engine
from workers.gateway.snapshots.directory import Directory

Told = TypeVar("Told")


def kv_used_by_model(directory: Directory | None, engines: Sequence[Engine]) -> dict[str, float]:
    """The mean over the engines that have told, 0 to 1; without any a model is left out, as unknown is not zero."""
    used = [(version_id, reading.kv_used_ratio) for version_id, reading in _readings(engines)]
    return {model: fmean(told) for model, told in _by_model(directory, used).items()}


def blocks_by_model(directory: Directory | None, engines: Sequence[Engine]) -> dict[str, dict[int, int]]:
    """How many KV blocks the engines have that have told, by the tokens of a block."""
    models: dict[str, dict[int, int]] = {}
    caches = [(version_id, _cache(reading)) for version_id, reading in _readings(engines)]
    for model, told in _by_model(directory, caches).items():
        blocks = models.setdefault(model, {})
        for block_tokens, count in told:
            blocks[block_tokens] = blocks.get(block_tokens, 0) + count
    return models


def _readings(engines: Sequence[Engine]) -> list[tuple[str, EngineReading]]:
    return [(engine.endpoint.version_id, engine.reading) for engine in engines if engine.reading is not None]


def _cache(reading: EngineReading) -> tuple[int, int] | None:
    """Tokens of a block, and the number of blocks."""
    if not reading.block_tokens or reading.kv_capacity_tokens is None:
        return None
    return reading.block_tokens, reading.kv_capacity_tokens // reading.block_tokens


def _by_model(directory: Directory | None, told: Sequence[tuple[str, Told | None]]) -> dict[str, list[Told]]:
    """What was told of versions, by the models that lead to them."""
    by_version: dict[str, list[Told]] = {}
    for version_id, value in told:
        if value is not None:
            by_version.setdefault(version_id, []).append(value)
    routes = directory.snapshot.routes if directory is not None and by_version else []
    models = {
        route.public_name: [value for target in route.targets for value in by_version.get(target.version_id, [])]
        for route in routes
    }
    return {model: values for model, values in models.items() if values}

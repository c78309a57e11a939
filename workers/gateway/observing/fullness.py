"""How full the KV caches of each model's engines are, for those who watch a gateway as they watch an engine."""

from collections.abc import Sequence
from statistics import fmean

from workers.gateway.attempts.engines import Engine
from workers.gateway.snapshots.directory import Directory


def kv_used_by_model(directory: Directory | None, engines: Sequence[Engine]) -> dict[str, float]:
    """The mean over the engines that have told, 0 to 1; without any a model is left out, as unknown is not zero."""
    by_version: dict[str, list[float]] = {}
    for engine in engines:
        if engine.reading is not None and engine.reading.kv_used_ratio is not None:
            by_version.setdefault(engine.endpoint.version_id, []).append(engine.reading.kv_used_ratio)
    routes = directory.snapshot.routes if directory is not None and by_version else []
    told = {
        route.public_name: [used for target in route.targets for used in by_version.get(target.version_id, [])]
        for route in routes
    }
    return {model: fmean(used) for model, used in told.items() if used}

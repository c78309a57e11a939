"""Which engines a gateway may use."""

from collections.abc import Callable, Iterable, Mapping

from msgspec import structs

from workers.agent.memory import ProcessView
from workers.contracts.endpoints import Endpoint, EngineShape
from workers.contracts.telemetry import ReplicaReport

_OFFERED = {"ready", "draining"}


def offered_endpoints(
    reports: Iterable[ReplicaReport],
    processes: Mapping[str, ProcessView],
    reports_continuous_usage: Callable[[str], bool],
) -> list[Endpoint]:
    """Those that have answered a real request and live; a draining one is listed as such, so that it gets no more."""
    endpoints = []
    for report in reports:
        process = processes.get(report.replica_id)
        if process and process.is_alive and process.has_passed and report.state in _OFFERED:
            endpoint = Endpoint(
                endpoint_id=report.replica_id,
                version_id=process.spec.version_id,
                base_url=f"http://127.0.0.1:{process.spec.port}",
                engine=process.spec.engine,
                max_running_requests=process.max_running_requests,
                reports_continuous_usage=reports_continuous_usage(process.spec.engine),
                is_draining=report.state == "draining",
                shape=_shape_of(process, report),
            )
            endpoints.append(endpoint)
    return endpoints


def _shape_of(process: ProcessView, report: ReplicaReport) -> EngineShape:
    """What the engine says of itself goes before what follows from its arguments."""
    shape = process.shape
    return structs.replace(
        shape,
        kv_capacity_tokens=report.kv_capacity_tokens or shape.kv_capacity_tokens,
        block_tokens=report.block_tokens or shape.block_tokens,
    )

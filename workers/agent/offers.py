"""Which engines a gateway may use."""

from collections.abc import Callable, Iterable, Mapping

from workers.agent.memory import ProcessView
from workers.contracts.endpoints import Endpoint
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
            )
            endpoints.append(endpoint)
    return endpoints

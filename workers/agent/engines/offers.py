"""Which engines a gateway may use, and which ones are on their way."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from math import ceil

from msgspec import structs

from workers.agent.engines.memory import ProcessView
from workers.contracts.desired import ReplicaSpec
from workers.contracts.endpoints import Endpoint, EngineShape
from workers.contracts.telemetry import ReplicaReport

_OFFERED = {"ready", "degraded", "draining"}
_COMING = {"starting", "warming", "sleeping", "placed"}
# What loads longer than expected is never due before that: the gateway hears of each change within a second.
_LEAST_LEFT_S = 5.0
_MAX_SPECS = 256


class LoadTimes:
    """How long engines took from their start to their first real answer, by spec, else by version; bounded."""

    def __init__(self) -> None:
        self._seconds: OrderedDict[str, float] = OrderedDict()

    def note(self, spec: ReplicaSpec, seconds: float) -> None:
        for key in (spec.spec_hash, spec.version_id):
            self._seconds[key] = seconds
            self._seconds.move_to_end(key)
        while len(self._seconds) > _MAX_SPECS:
            self._seconds.popitem(last=False)

    def expected(self, spec: ReplicaSpec) -> float | None:
        return self._seconds.get(spec.spec_hash, self._seconds.get(spec.version_id))


def offered_endpoints(
    reports: Iterable[ReplicaReport],
    processes: Mapping[str, ProcessView],
    reports_continuous_usage: Callable[[str], bool],
) -> list[Endpoint]:
    """Those that have answered a real request and live.

    One that drains, or is not well, is listed as draining: it gets no more, and what it has goes on.
    """
    return [
        _endpoint_of(process, report, reports_continuous_usage)
        for report in reports
        if (process := processes.get(report.replica_id))
        and process.is_alive
        and process.has_passed
        and not process.is_asleep
        and report.state in _OFFERED
    ]


def coming_endpoints(
    reports: Iterable[ReplicaReport],
    processes: Mapping[str, ProcessView],
    reports_continuous_usage: Callable[[str], bool],
    load_times: LoadTimes,
    *,
    now: float,
    unix_time: float,
) -> list[Endpoint]:
    """Those that load or sleep; when one may be ready is known once one of its kind has loaded here.

    `now` is of the clock of `ProcessView.started_at`.
    """
    endpoints = []
    for report in reports:
        process = processes.get(report.replica_id)
        if process and process.is_alive and _is_coming(process, report):
            endpoint = _endpoint_of(process, report, reports_continuous_usage)
            left_s = None if process.is_asleep else _left_s(process, load_times, now)
            ready_at = None if left_s is None else float(ceil(unix_time + left_s))
            is_lying = report.state in ("sleeping", "placed")
            endpoints.append(structs.replace(endpoint, warmth="asleep" if is_lying else "loading", ready_at=ready_at))
    return endpoints


def _is_coming(process: ProcessView, report: ReplicaReport) -> bool:
    return (process.is_asleep or not process.has_passed) and report.state in _COMING


def _left_s(process: ProcessView, load_times: LoadTimes, now: float) -> float | None:
    expected_s = load_times.expected(process.spec)
    return None if expected_s is None else max(_LEAST_LEFT_S, process.started_at + expected_s - now)


def _endpoint_of(
    process: ProcessView, report: ReplicaReport, reports_continuous_usage: Callable[[str], bool]
) -> Endpoint:
    return Endpoint(
        endpoint_id=report.replica_id,
        version_id=process.spec.version_id,
        base_url=f"http://127.0.0.1:{process.spec.port}",
        engine=process.spec.engine,
        max_running_requests=process.max_running_requests,
        reports_continuous_usage=reports_continuous_usage(process.spec.engine),
        is_draining=report.state != "ready",
        shape=_shape_of(process, report),
    )


def _shape_of(process: ProcessView, report: ReplicaReport) -> EngineShape:
    """What the engine says of itself goes before what follows from its arguments."""
    shape = process.shape
    return structs.replace(
        shape,
        kv_capacity_tokens=report.kv_capacity_tokens or shape.kv_capacity_tokens,
        block_tokens=report.block_tokens or shape.block_tokens,
    )

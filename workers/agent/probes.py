"""Asks an engine how it is, over its own HTTP: health, metrics, and where wanted a real request."""

import asyncio
import http.client
from collections.abc import Mapping
from http import HTTPStatus

from msgspec import Struct

from workers.agent.memory import ProbeResult, ProcessView
from workers.engines.interface import EngineAdapter, EngineReading

_QUICK_TIMEOUT_S = 3.0
# A first request may compile or page in a model.
_TRIAL_TIMEOUT_S = 60.0
_MAX_ANSWER_BYTES = 8 * 1024 * 1024


class _Answer(Struct, frozen=True):
    """`status` 0: nobody answered in time."""

    status: int
    body: bytes = b""


async def probe(process: ProcessView, adapters: Mapping[str, EngineAdapter], *, with_trial: bool) -> ProbeResult:
    """Never raises: an engine that answers nothing, or nonsense, is an unhealthy one."""
    adapter = adapters[process.spec.engine]
    port = process.spec.port
    health = await _ask(port, "GET", adapter.health_path)
    reading = await _read_metrics(port, adapter)
    return ProbeResult(
        pid=process.pid,
        is_healthy=health.status == HTTPStatus.OK,
        reading=reading,
        trial_passed=await _try_out(process, adapter) if with_trial else None,
    )


async def _read_metrics(port: int, adapter: EngineAdapter) -> EngineReading | None:
    answer = await _ask(port, "GET", adapter.metrics_path)
    if answer.status != HTTPStatus.OK:
        return None
    return adapter.read_metrics(answer.body.decode(errors="replace"))


async def _try_out(process: ProcessView, adapter: EngineAdapter) -> bool:
    trial = adapter.trial(process.spec)
    answer = await _ask(process.spec.port, "POST", trial.path, trial.body, _TRIAL_TIMEOUT_S)
    return adapter.has_passed(process.spec, answer.status, answer.body)


async def _ask(
    port: int, method: str, path: str, body: bytes | None = None, timeout_s: float = _QUICK_TIMEOUT_S
) -> _Answer:
    """In a thread; the outer limit is for a server that keeps dripping."""
    try:
        asked = asyncio.to_thread(_exchange, port, method, path, body, timeout_s)
        return await asyncio.wait_for(asked, 2 * timeout_s)
    except (OSError, http.client.HTTPException):
        return _Answer(0)


def _exchange(port: int, method: str, path: str, body: bytes | None, timeout_s: float) -> _Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        headers = {"Content-Type": "application/json"} if body else {}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return _Answer(response.status, response.read(_MAX_ANSWER_BYTES))
    finally:
        connection.close()

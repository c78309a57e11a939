"""Asks an engine how it is, over its own HTTP: health, metrics, and where wanted a real request."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus

import httptools
from msgspec import Struct, field

from workers.agent.memory import ProbeResult, ProcessView
from workers.engines.interface import EngineAdapter, EngineReading

_QUICK_TIMEOUT_S = 3.0
# A first request may compile or page in a model.
_TRIAL_TIMEOUT_S = 60.0
_READ_BYTES = 64 * 1024
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


async def _ask(port: int, method: str, path: str, body: bytes = b"", timeout_s: float = _QUICK_TIMEOUT_S) -> _Answer:
    try:
        async with asyncio.timeout(timeout_s):
            return await _exchange(port, _request(method, path, body))
    except (OSError, httptools.HttpParserError):
        return _Answer(0)


def _request(method: str, path: str, body: bytes) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def _exchange(port: int, request: bytes) -> _Answer:
    """Not in a thread: one that waits for an engine that hangs would hold up the agent's own end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        response = _Response()
        parser = httptools.HttpResponseParser(response)
        while not response.is_complete and response.size_bytes < _MAX_ANSWER_BYTES:
            data = await reader.read(_READ_BYTES)
            if not data:
                break
            parser.feed_data(data)
        return _Answer(parser.get_status_code(), b"".join(response.parts))
    finally:
        writer.close()


class _Response(Struct):
    """What the parser calls."""

    parts: list[bytes] = field(default_factory=list)
    size_bytes: int = 0
    is_complete: bool = False

    def on_body(self, body: bytes) -> None:
        self.parts.append(body)
        self.size_bytes += len(body)

    def on_message_complete(self) -> None:
        self.is_complete = True

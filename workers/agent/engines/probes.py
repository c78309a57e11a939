"""Asks an engine how it is, over its own HTTP: health, metrics, and where wanted a real request."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus

import httptools
import msgspec
from msgspec import Struct, field

from workers.agent.engines.memory import ProbeResult, ProcessView
from workers.engines.interface import EngineAdapter, EngineReading

_QUICK_TIMEOUT_S = 2.0
# Weights of a large model take a while to the host's memory and back.
_SLEEP_TIMEOUT_S = 60.0
# vLLM's own paths, where sleeping is switched on.
_SLEEP, _WAKE_UP, _IS_SLEEPING = "/sleep", "/wake_up", "/is_sleeping"
_READ_BYTES = 64 * 1024
_MAX_ANSWER_BYTES = 8 * 1024 * 1024


class _Sleeping(Struct):
    is_sleeping: bool


class _Answer(Struct, frozen=True):
    """`status` 0: nobody answered in time."""

    status: int
    body: bytes = b""


async def probe(process: ProcessView, adapters: Mapping[str, EngineAdapter]) -> ProbeResult:
    """Never raises: an engine that answers nothing, or nonsense, is an unhealthy one."""
    adapter = adapters[process.spec.engine]
    port = process.spec.port
    asked = [_ask(port, "GET", path) for path in (adapter.health_path, adapter.metrics_path)]
    asked += [_ask(port, "GET", _IS_SLEEPING)] if process.can_sleep else []
    health, metrics, *sleep = await asyncio.gather(*asked)
    return ProbeResult(
        pid=process.pid,
        is_healthy=health.status == HTTPStatus.OK,
        has_answered=any(each.status for each in (health, metrics, *sleep)),
        reading=_reading_of(metrics, adapter),
        lies_asleep=_lies_asleep(sleep[0]) if sleep else None,
    )


async def try_out(process: ProcessView, adapters: Mapping[str, EngineAdapter], limit_s: float) -> bool | None:
    """Whether a small real request is answered as it should be; None from an engine that is too busy to take it."""
    adapter = adapters[process.spec.engine]
    trial = adapter.trial(process.spec)
    answer = await _ask(process.spec.port, "POST", trial.path, trial.body, limit_s)
    is_busy = answer.status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS)
    return None if is_busy else adapter.has_passed(process.spec, answer.status, answer.body)


async def put_to_sleep(port: int) -> None:
    """Its weights go to the host's memory, its cache is dropped. Whether they did is asked by `probe`."""
    await _ask(port, "POST", f"{_SLEEP}?level=1", timeout_s=_SLEEP_TIMEOUT_S)


async def wake_up(port: int) -> None:
    await _ask(port, "POST", _WAKE_UP, timeout_s=_SLEEP_TIMEOUT_S)


def _reading_of(answer: _Answer, adapter: EngineAdapter) -> EngineReading | None:
    return adapter.read_metrics(answer.body.decode(errors="replace")) if answer.status == HTTPStatus.OK else None


def _lies_asleep(answer: _Answer) -> bool | None:
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(answer.body, type=_Sleeping).is_sleeping
    return None


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

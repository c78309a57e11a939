"""Probes: does it really answer? Each makes a function that says yes or no and never waits longer than its timeout."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import msgspec
import psycopg
import redis
from celery import Celery

from deploy.local import postgres, valkey
from workers.agent.engines.crashes import read_given_up
from workers.contracts import layout
from workers.contracts.desired import DesiredState
from workers.contracts.endpoints import EndpointList

Probe = Callable[[], Awaitable[bool]]
_HTTP_TIMEOUT_S = 5
_PING_TIMEOUT_S = 1.5
_COMPLETION_TIMEOUT_S = 60
_direct = build_opener(ProxyHandler({}))  # a proxy in the environment knows nothing of our loopback


class GivenUpError(RuntimeError):
    """What is waited for will not come; the message says why."""


async def until(probe: Probe, *, every_s: float) -> None:
    while not await probe():  # noqa: ASYNC110 - it asks another process, which sets no event of ours
        await asyncio.sleep(every_s)


def postgres_answers(cluster: postgres.Postgres) -> Probe:
    return _succeeds(lambda: postgres.ensure_database(cluster), psycopg.OperationalError)


def valkey_answers(server: valkey.Valkey) -> Probe:
    return _succeeds(lambda: valkey.ping(server), redis.RedisError)


def http_answers(url: str) -> Probe:
    """A 2xx to a GET."""
    return _succeeds(lambda: _read(Request(url), timeout_s=_HTTP_TIMEOUT_S), OSError, HTTPException)  # noqa: S310 - ours


def celery_answers(broker_url: str, hostname: str) -> Probe:
    """The Celery worker of that name answers a ping."""

    def ping() -> bool:
        with Celery(broker=broker_url, set_as_current=False) as app:
            return bool(app.control.ping(destination=[hostname], timeout=_PING_TIMEOUT_S))

    async def answers() -> bool:
        try:
            return await asyncio.to_thread(ping)
        except OSError:
            return False

    return answers


def has_written(path: Path) -> Probe:
    """A file whose name starts with that of `path` exists: database modules append endings of their own."""

    async def answers() -> bool:
        return any(path.parent.glob(f"{path.name}*"))

    return answers


def offers_every_engine(node: Path) -> Probe:
    """Each replica that the node should run is offered to its gateway: it has answered a real request.

    Raises GivenUpError for one that crashes again and again.
    """

    async def answers() -> bool:
        try:
            wanted = msgspec.json.decode((node / layout.DESIRED_FILE).read_bytes(), type=DesiredState)
            offered = msgspec.json.decode((node / layout.ENDPOINTS_FILE).read_bytes(), type=EndpointList)
        except (OSError, msgspec.DecodeError):
            return False
        ready = {endpoint.endpoint_id for endpoint in offered.endpoints}
        missing = [replica.replica_id for replica in wanted.replicas if replica.replica_id not in ready]
        _check_given_up(node, missing)
        return bool(wanted.replicas) and not missing

    return answers


def _check_given_up(node: Path, missing: list[str]) -> None:
    given_up = read_given_up(node / layout.CRASHES_FILE)
    for replica_id in missing:
        if replica_id in given_up:
            log = node / "logs" / f"engine-{replica_id}.log"
            raise GivenUpError(f"An engine does not start: it {given_up[replica_id]}\nIts log is {log}")


def completes(gateway_url: str, *, model: str, api_key: str) -> Probe:
    """The model answers through the gateway, as a tenant would ask it."""
    body = {"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": "Say hello."}]}
    request = Request(  # noqa: S310 - our own gateway
        f"{gateway_url}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"},
    )
    return _succeeds(lambda: _read(request, timeout_s=_COMPLETION_TIMEOUT_S), OSError, HTTPException)


def _succeeds(attempt: Callable[[], Any], *errors: type[Exception]) -> Probe:
    async def answers() -> bool:
        try:
            await asyncio.to_thread(attempt)
        except errors:
            return False
        return True

    return answers


def _read(request: Request, *, timeout_s: float) -> bytes:
    with _direct.open(request, timeout=timeout_s) as answer:
        return bytes(answer.read())

"""Real engine processes, started as the agent would start them but without an agent."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workers.contracts.desired import ReplicaSpec
from workers.engines.interface import EngineAdapter


@contextmanager
def running_engine(adapter: EngineAdapter, spec: ReplicaSpec, log: Path) -> Iterator[str]:
    """The base URL, once the trial request has passed. The log is shown when it never does."""
    plan = adapter.plan(spec)
    with log.open("wb") as output:
        process = subprocess.Popen(plan.argv, env=os.environ | plan.env, stdout=output, stderr=output)
    base_url = f"http://127.0.0.1:{spec.port}"
    try:
        _wait_until_passed(adapter, spec, process, plan.start_timeout_s, log)
        yield base_url
    finally:
        process.terminate()
        try:
            process.wait(timeout=plan.stop_grace_s + 5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=10)


def _wait_until_passed(
    adapter: EngineAdapter, spec: ReplicaSpec, process: subprocess.Popen[bytes], timeout_s: float, log: Path
) -> None:
    trial = adapter.trial(spec)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and process.poll() is None:
        status, body = post(f"http://127.0.0.1:{spec.port}{trial.path}", trial.body)
        if adapter.has_passed(spec, status, body):
            return
        time.sleep(0.5)
    raise TimeoutError(log.read_text(errors="replace")[-4000:])


def post(url: str, body: bytes | dict[str, Any], timeout_s: float = 120) -> tuple[int, bytes]:
    """(0, b"") when nobody answers."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, content, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


def get(url: str, timeout_s: float = 30) -> bytes:
    with urllib.request.urlopen(url, timeout=timeout_s) as response:
        content: bytes = response.read()
        return content

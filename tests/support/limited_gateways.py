"""Several gateways as processes of their own, before one engine, with limits that they share."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tests.support.fake_engines import fake_engine_process, free_port, wait_for_port
from tests.support.gateways import authorised, chat_body, snapshot_for
from tests.support.raw_http import RawResponse, call
from workers.contracts.layout import write_whole
from workers.contracts.limits import TenantLimits
from workers.contracts.snapshot import Price, Snapshot
from workers.contracts.spool import decode_lines, list_segments
from workers.contracts.usage import UsageRecord

ADOPTED_AFTER_S = 0.6
PATH = "/v1/chat/completions"


@dataclass
class Gateway:
    port: int
    admin_port: int
    process: subprocess.Popen[bytes]

    async def chat(self, *, tenant: str = "gold", **fields: Any) -> RawResponse:
        return await call(self.port, "POST", PATH, chat_body(**fields), authorised(tenant))

    async def metrics(self) -> dict[str, float]:
        """Those without labels."""
        lines = (await call(self.admin_port, "GET", "/metrics")).body.decode().split("\n")
        samples = [line.split(" ") for line in lines if line.startswith("tokenyard_") and "{" not in line]
        return {name: float(value) for name, value in samples}


@dataclass
class LimitedGateways:
    directory: Path
    snapshot: Snapshot
    gateways: list[Gateway] = field(default_factory=list)

    async def set_limits(self, *limits: TenantLimits) -> None:
        self.snapshot = msgspec.structs.replace(
            self.snapshot, generation=self.snapshot.generation + 1, limits=list(limits)
        )
        write_whole(self.directory / "snapshot.json", msgspec.json.encode(self.snapshot))
        await asyncio.sleep(ADOPTED_AFTER_S)

    async def ask_all(self, *places: int, tenant: str = "gold", **fields: Any) -> list[RawResponse]:
        """One request at each of these gateways, all at once."""
        return await asyncio.gather(*(self.gateways[place].chat(tenant=tenant, **fields) for place in places))

    async def count_admitted(self, *places: int, tenant: str = "gold", **fields: Any) -> int:
        return [answer.status for answer in await self.ask_all(*places, tenant=tenant, **fields)].count(200)

    def records(self, tenant: str) -> list[UsageRecord]:
        """Of all gateways."""
        segments = [segment for spool in self.directory.glob("spool-*") for segment in list_segments(spool)]
        records = [one for segment in segments for one in decode_lines(segment.read_bytes(), 1_000_000)[0]]
        return [record for record in records if record.tenant_id == tenant]

    def kill(self, place: int) -> None:
        self.gateways[place].process.kill()
        self.gateways[place].process.wait(10)


@contextmanager
def limited_gateways(directory: Path, count: int, valkey_url: str) -> Iterator[LimitedGateways]:
    engine_port = free_port()
    with fake_engine_process(engine_port, "--served-model-name", "demo-chat"):
        snapshot = snapshot_for(("demo-chat", 100, [engine_port]))
        version = msgspec.structs.replace(snapshot.versions[0], price=Price(input_pico_usd=0, output_pico_usd=10**9))
        yard = LimitedGateways(directory, msgspec.structs.replace(snapshot, versions=[version]))
        write_whole(directory / "snapshot.json", msgspec.json.encode(yard.snapshot))
        try:
            for place in range(count):
                yard.gateways.append(_start(directory, place, valkey_url))
            for gateway in yard.gateways:
                wait_for_port(gateway.port, gateway.process)
            yield yard
        finally:
            for gateway in yard.gateways:
                gateway.process.kill()
                gateway.process.wait(10)


def _start(directory: Path, place: int, valkey_url: str) -> Gateway:
    port, admin_port = free_port(), free_port()
    command = [sys.executable, "-m", "workers.gateway", "--snapshot", str(directory / "snapshot.json")]
    command += ["--port", str(port), "--admin-port", str(admin_port), "--spool", str(directory / f"spool-{place}")]
    environment = os.environ | {"TOKENYARD_VALKEY_URL": valkey_url}
    return Gateway(port, admin_port, subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))

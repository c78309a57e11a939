"""Many light nodes on one machine: each speaks an agent's side of the link, and pretends to start what it is told to.

For trying a control plane out at size. There is no engine and no gateway behind them: a replica is ready some seconds
after it was asked for, and has stopped as soon as it may.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from random import Random

import msgspec
from msgspec import Struct
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from workers.contracts.desired import DesiredState, ReplicaSpec
from workers.contracts.link import DesiredPush, Hello, SnapshotPush, Telemetry, decode_to_agent
from workers.contracts.telemetry import AcceleratorReport, DiskReport, NodeTelemetry, ReplicaReport

_GIB = 1024**3
_STARTS_AFTER_S = 3.0
_OPEN_TIMEOUT_S = 30.0
_RETRY_S = 5.0
_PERIOD_S = 1.0
_MOMENTS = 4
# As the driver names them, with their memory.
_GPUS = (("NVIDIA H100 80GB HBM3", 80), ("NVIDIA A100-SXM4-80GB", 80), ("NVIDIA L4", 24), ("NVIDIA H200", 141))
_WITHOUT_NVLINK = {"NVIDIA L4"}
_DISK = DiskReport(free_bytes=4096 * _GIB)


class NodeAccount(Struct, frozen=True):
    """What a node is known by."""

    node_id: str
    token: str


class Counts(Struct):
    """Of all nodes together, since the beginning. `drains_seen` has when a node was first told to drain a replica."""

    linked: int = 0
    frames_sent: int = 0
    desired_received: int = 0
    links_lost: int = 0
    replicas_ready: int = 0
    drains_seen: dict[str, float] = {}


def report_replicas(desired: DesiredState | None, first_seen: dict[str, float], now: float) -> list[ReplicaReport]:
    """Pure but for `first_seen`, which it keeps: when each replica was first asked for."""
    specs = desired.replicas if desired else []
    for gone in set(first_seen) - {spec.replica_id for spec in specs}:
        del first_seen[gone]
    return [_report(spec, now - first_seen.setdefault(spec.replica_id, now)) for spec in specs]


def _report(spec: ReplicaSpec, age_s: float) -> ReplicaReport:
    if spec.part is not None and not spec.part.may_start and not spec.is_draining:
        return ReplicaReport(
            replica_id=spec.replica_id, state="placed", spec_hash=spec.spec_hash, port=spec.port, is_prepared=True
        )
    state = "stopped" if spec.is_draining else "ready" if age_s >= _STARTS_AFTER_S else "starting"
    return ReplicaReport(replica_id=spec.replica_id, state=state, spec_hash=spec.spec_hash, port=spec.port)


def _gpus(name: str, gib: int, count: int, random: Random) -> list[AcceleratorReport]:
    """As they are at one moment: what of it trembles is not written to a database."""
    return [
        AcceleratorReport(
            index=index,
            kind="gpu",
            name=name,
            key=str(index),
            memory_total_bytes=gib * _GIB,
            memory_used_bytes=random.randrange(gib * _GIB),
            foreign_bytes=0,
            utilisation_ratio=random.random(),
            temperature_c=random.uniform(30, 85),
            power_w=random.uniform(60, 700),
            island=None if name in _WITHOUT_NVLINK else 0,
            numa=2 * index // count,
            driver_version="570.86.15",
        )
        for index in range(count)
    ]


class SimulatedNode:
    def __init__(self, account: NodeAccount, url: str, gpu_count: int, counts: Counts, random: Random) -> None:
        self._account = account
        self._url = url
        self._counts = counts
        self._random = random
        name, gib = random.choice(_GPUS)
        self._moments = [_gpus(name, gib, gpu_count, random) for _ in range(_MOMENTS)]
        self._desired: DesiredState | None = None
        self._snapshot_generation = 0
        self._first_seen: dict[str, float] = {}
        self._ready = 0

    async def run(self) -> None:
        """Until it is cancelled; a link that ends is made again."""
        while True:
            with suppress(OSError, WebSocketException, TimeoutError):
                await self._one_link()
            await asyncio.sleep(self._random.uniform(0, _RETRY_S))

    async def _one_link(self) -> None:
        headers = {"Authorization": f"Bearer {self._account.token}"}
        async with connect(
            self._url, additional_headers=headers, compression=None, proxy=None, open_timeout=_OPEN_TIMEOUT_S
        ) as link:
            await self._send(link, self._hello())
            self._counts.linked += 1
            teller = asyncio.create_task(self._tell(link))
            try:
                async for frame in link:
                    self._take(frame)
            finally:
                teller.cancel()
                self._counts.linked -= 1
                self._counts.links_lost += 1

    def _take(self, frame: str | bytes) -> None:
        message = decode_to_agent(frame)
        if isinstance(message, DesiredPush):
            self._desired = message.body
            self._counts.desired_received += 1
            for spec in message.body.replicas:
                if spec.is_draining:
                    self._counts.drains_seen.setdefault(spec.replica_id, time.monotonic())
        elif isinstance(message, SnapshotPush):
            self._snapshot_generation = message.generation

    async def _tell(self, link: ClientConnection) -> None:
        """Nodes do not all speak in the same moment."""
        await asyncio.sleep(self._random.uniform(0, _PERIOD_S))
        sequence = 0
        while True:
            sequence += 1
            await self._send(link, Telemetry(body=self._sample(sequence)))
            self._counts.frames_sent += 1
            await asyncio.sleep(_PERIOD_S)

    def _sample(self, sequence: int) -> NodeTelemetry:
        reports = report_replicas(self._desired, self._first_seen, time.monotonic())
        ready = sum(report.state == "ready" for report in reports)
        self._counts.replicas_ready += ready - self._ready
        self._ready = ready
        return NodeTelemetry(
            node_id=self._account.node_id,
            boot_id="simulated",
            sequence=sequence,
            sampled_at=time.time(),
            desired_generation=self._desired.generation if self._desired else 0,
            snapshot_generation=self._snapshot_generation,
            replicas=reports,
            accelerators=self._moments[sequence % _MOMENTS],
            disk=_DISK,
        )

    def _hello(self) -> Hello:
        inventory = {"engines": ["vllm", "fake"], "cpu_count": 64, "memory_bytes": 512 * _GIB, "hostname": "simulated"}
        return Hello(node_id=self._account.node_id, boot_id="simulated", agent_version="simulated", inventory=inventory)

    async def _send(self, link: ClientConnection, frame: Struct) -> None:
        await link.send(msgspec.json.encode(frame).decode())


async def simulate(
    accounts: Sequence[NodeAccount], *, url: str, gpu_count: int, seconds: float, counts: Counts, random: Random
) -> None:
    nodes = [SimulatedNode(account, url, gpu_count, counts, Random(random.random())) for account in accounts]
    tasks = [asyncio.create_task(node.run()) for node in nodes]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

"""The agent's loops, all in one asyncio loop: reconcile, probe, offer, tell, ship."""

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Any

from msgspec import structs

from workers.agent import lease, reconcile
from workers.agent.accelerators import Accelerators
from workers.agent.lease import Sightings
from workers.agent.link import Link
from workers.agent.machine import open_gpus
from workers.agent.memory import Action, ActionKind, ProcessView, ReplicaMemory, Timers
from workers.agent.node_files import NodeFiles, RefusedError
from workers.agent.offers import LoadTimes, coming_endpoints, offered_endpoints
from workers.agent.peers import any_answers
from workers.agent.probes import probe
from workers.agent.processes import EngineProcesses, boot_clock
from workers.agent.prompt_shipper import PromptShipper
from workers.agent.settings import AgentSettings
from workers.agent.telemetry import AGENT_VERSION, TelemetrySource, take_inventory
from workers.agent.usage_shipper import UsageShipper, UsageSpool
from workers.agent.weights import hub_directory
from workers.contracts import layout
from workers.contracts.ids import uuid7
from workers.contracts.link import DesiredPush, Hello, PromptAck, SnapshotPush, Telemetry, UsageAck, Welcome
from workers.contracts.telemetry import ReplicaReport
from workers.engines.interface import EngineAdapter, SpecRefusedError
from workers.engines.registry import get_adapter

log = logging.getLogger(__name__)

_STOP_POLL_S = 0.1
_STOP_GRACE_S = 3.0


class Agent:
    """`environ` is what engines inherit."""

    def __init__(
        self,
        settings: AgentSettings,
        adapters: Mapping[str, EngineAdapter],
        environ: Mapping[str, str],
        random: Random,
        timers: Timers | None = None,
    ) -> None:
        directory = settings.node_directory
        (directory / layout.SPOOL_DIRECTORY).mkdir(parents=True, exist_ok=True)
        self._settings = settings
        self._adapters = adapters
        self._random = random
        self._timers = timers or Timers()
        self._boot_id = self._new_id()
        self._files = NodeFiles(directory, settings.node_id)
        self._processes = EngineProcesses(directory, environ)
        self._accelerators = Accelerators(open_gpus(environ), own_sessions=self._processes.leader_pids)
        self._hub = hub_directory(environ)
        self._seen = Sightings(heard_at=boot_clock())
        self._telemetry = TelemetrySource(
            settings.node_id, self._boot_id, self._files, self._accelerators, self._processes.log_tail
        )
        self._link = Link(
            settings.control_url,
            settings.token,
            hello=self._hello,
            welcomed=self._welcomed,
            receive=self._received,
            random=random,
        )
        self._shipper = UsageShipper(UsageSpool(directory / layout.SPOOL_DIRECTORY), self._link.send, self._new_id)
        self._prompt_shipper = PromptShipper(directory / layout.PROMPTS_DIRECTORY, self._link.send)
        self._memories: dict[str, ReplicaMemory] = {}
        self._reports: list[ReplicaReport] = []
        self._probing: dict[str, asyncio.Task[None]] = {}
        self._load_times = LoadTimes()
        self._nudge = asyncio.Event()

    async def run(self, stopping: asyncio.Event) -> None:
        """Until `stopping`; then engines serve on, unless the settings say otherwise."""
        loops = [self._reconcile_for_ever(), self._tell_for_ever(), self._watch_lease_for_ever(), self._link.run()]
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(each) for each in loops]
        tasks.append(asyncio.create_task(self._shipper.run(self._gateway_boot_id)))
        tasks.append(asyncio.create_task(self._prompt_shipper.run()))
        stop = asyncio.create_task(stopping.wait())
        try:
            done, _ = await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stop}:
                task.result()
        finally:
            await _cancel([*tasks, stop, *self._probing.values()])
            if self._settings.stops_engines:
                await self._stop_engines()
            self._accelerators.close()

    def nudge(self) -> None:
        self._nudge.set()

    def restart_replica(self, replica_id: str) -> None:
        memory = self._memories.get(replica_id)
        if memory:
            self._memories[replica_id] = reconcile.remember_restart(memory)
            self.nudge()

    # reconcile

    async def _reconcile_for_ever(self) -> None:
        while True:
            self._nudge.clear()
            try:
                self._turn()
            except OSError:
                log.exception("this turn was cut short; the next one comes in %s s", self._timers.turn_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timers.turn_s):
                    await self._nudge.wait()

    def _turn(self) -> None:
        processes = self._processes.observe()
        now = boot_clock()
        is_cut_off = lease.is_cut_off(self._files.desired, self._seen, now)
        turn = reconcile.turn(
            self._files.desired,
            processes,
            self._memories,
            self._timers,
            now,
            free_bytes=self._accelerators.free_bytes(),
            is_cut_off=is_cut_off,
        )
        self._memories, self._reports = turn.memories, self._with_memory(turn.reports)
        self._offer(turn.reports, processes, now)
        for action in turn.actions:
            self._carry_out(action, processes)

    def _offer(self, reports: list[ReplicaReport], processes: Mapping[str, ProcessView], now: float) -> None:
        tells_usage = self._reports_continuous_usage
        coming = coming_endpoints(reports, processes, tells_usage, self._load_times, now=now, unix_time=time.time())
        self._files.offer(offered_endpoints(reports, processes, tells_usage), coming)

    def _with_memory(self, reports: list[ReplicaReport]) -> list[ReplicaReport]:
        used = self._accelerators.used_by_session()
        return [structs.replace(each, memory_bytes=used.get(each.pid)) if each.pid else each for each in reports]

    def _carry_out(self, action: Action, processes: Mapping[str, ProcessView]) -> None:
        replica_id = action.spec.replica_id
        match action.kind:
            case ActionKind.START:
                self._start(action)
            case ActionKind.STOP:
                self._processes.stop(replica_id)
            case ActionKind.KILL:
                self._processes.kill(replica_id)
            case ActionKind.FORGET:
                self._processes.forget(replica_id)
                self.nudge()
            case ActionKind.PROBE if replica_id not in self._probing:
                task = asyncio.create_task(self._probe(processes[replica_id], with_trial=action.with_trial))
                self._probing[replica_id] = task

    def _start(self, action: Action) -> None:
        spec = action.spec
        try:
            self._processes.start(spec, get_adapter(self._adapters, spec.engine).plan(spec))
        except (SpecRefusedError, OSError) as error:
            log.warning("replica %s cannot be started: %s", spec.replica_id, error)
            self._memories[spec.replica_id] = reconcile.remember_refusal(
                self._memories[spec.replica_id], spec, str(error), self._timers, boot_clock()
            )

    async def _probe(self, process: ProcessView, *, with_trial: bool) -> None:
        replica_id = process.spec.replica_id
        try:
            result = await probe(process, self._adapters, with_trial=with_trial)
        finally:
            del self._probing[replica_id]
        if result.trial_passed:
            self._processes.mark_passed(replica_id, process.pid)
            if not process.has_passed:
                self._load_times.note(process.spec, boot_clock() - process.started_at)
        memory = self._memories.get(replica_id)
        if memory:
            self._memories[replica_id] = reconcile.remember_probe(memory, result, boot_clock())
        if result.trial_passed or (result.is_healthy and not process.has_passed and not with_trial):
            self.nudge()

    def _reports_continuous_usage(self, engine: str) -> bool:
        adapter = self._adapters.get(engine)
        return adapter is not None and adapter.reports_continuous_usage

    # the link

    def _hello(self) -> Hello:
        return Hello(
            node_id=self._settings.node_id,
            boot_id=self._boot_id,
            agent_version=AGENT_VERSION,
            gateway_url=self._settings.gateway_url,
            inventory=take_inventory(self._accelerators, self._adapters.values(), self._hub),
        )

    def _welcomed(self, welcome: Welcome) -> None:
        if welcome.node_id != self._settings.node_id:
            raise ConnectionError(f"the token belongs to node {welcome.node_id}, not to {self._settings.node_id}")
        self._files.keep_public_key(welcome.snapshot_public_key)

    def _received(self, frame: SnapshotPush | DesiredPush | UsageAck | PromptAck) -> None:
        try:
            match frame:
                case SnapshotPush():
                    self._files.keep_snapshot(bytes(frame.envelope))
                case DesiredPush():
                    self._files.keep_desired(frame.body)
                    self.nudge()
                case UsageAck():
                    self._shipper.acknowledged(frame)
                case PromptAck():
                    self._prompt_shipper.acknowledged(frame)
        except (RefusedError, OSError) as error:
            log.error("not kept: %s", error)  # noqa: TRY400 - what came is to blame, not our code

    async def _tell_for_ever(self) -> None:
        while True:
            if self._link.is_up:
                body = self._telemetry.sample(self._reports, time.time())
                try:
                    await self._link.send(Telemetry(body=body))
                except ConnectionError as error:
                    log.debug("telemetry was not sent: %s", error)
            await asyncio.sleep(self._timers.turn_s)

    async def _watch_lease_for_ever(self) -> None:
        """While the control plane is silent, asks a peer now and then, which tells its end from ours."""
        while True:
            now = boot_clock()
            desired = self._files.desired
            if self._link.is_up:
                self._seen = Sightings(heard_at=now)
            elif desired and lease.should_ask_peers(desired, self._seen, now) and await any_answers(desired.peers):
                self._seen = structs.replace(self._seen, peer_at=boot_clock())
            await asyncio.sleep(self._timers.turn_s)

    def _gateway_boot_id(self) -> str | None:
        report = self._files.read_gateway_report(time.time())
        return report.boot_id if report else None

    # the end

    async def _stop_engines(self) -> None:
        alive = self._alive()
        for replica_id in alive:
            self._processes.stop(replica_id)
        await self._await_end(_STOP_GRACE_S)
        for replica_id in self._alive():
            self._processes.kill(replica_id)
        await self._await_end(_STOP_GRACE_S)
        for replica_id in self._processes.observe():
            self._processes.forget(replica_id)
        self._files.offer([])

    async def _await_end(self, limit_s: float) -> None:
        deadline = boot_clock() + limit_s
        while self._alive() and boot_clock() < deadline:  # noqa: ASYNC110 - processes of the last agent give no event
            await asyncio.sleep(_STOP_POLL_S)

    def _alive(self) -> list[str]:
        return [replica_id for replica_id, process in self._processes.observe().items() if process.is_alive]

    def _new_id(self) -> str:
        return uuid7(time.time(), self._random.getrandbits(74))


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

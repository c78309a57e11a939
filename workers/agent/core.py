"""The agent's loops, all in one asyncio loop: reconcile, probe, offer, tell, ship."""

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Any

from msgspec import structs

from workers.agent import lease
from workers.agent.care import EngineCare
from workers.agent.engines.memory import Timers
from workers.agent.engines.processes import EngineProcesses, boot_clock
from workers.agent.gateway_keeper import REMOVED_GRACE_S, GatewayKeeper
from workers.agent.hardware.accelerators import Accelerators
from workers.agent.hardware.machine import open_gpus
from workers.agent.lease import Sightings
from workers.agent.node_files import NodeFiles, RefusedError
from workers.agent.peers import any_answers
from workers.agent.release import release_of
from workers.agent.reporting.link import Link
from workers.agent.reporting.prompt_shipper import PromptShipper
from workers.agent.reporting.telemetry import AGENT_VERSION, TelemetrySource, take_inventory
from workers.agent.reporting.usage_shipper import UsageShipper, UsageSpool
from workers.agent.settings import AgentSettings
from workers.agent.storage.disk import WeightsDisk
from workers.agent.storage.fetches import Fetches
from workers.agent.storage.weights import hub_directory
from workers.contracts import layout
from workers.contracts.ids import uuid7
from workers.contracts.link import DesiredPush, Hello, PromptAck, SnapshotPush, Telemetry, UsageAck, Welcome
from workers.engines.interface import EngineAdapter

log = logging.getLogger(__name__)


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
        directory, hub = settings.node_directory, hub_directory(environ)
        (directory / layout.SPOOL_DIRECTORY).mkdir(parents=True, exist_ok=True)
        self._settings, self._adapters, self._random = settings, adapters, random
        self._timers = timers or Timers(drain_limit_s=settings.drain_limit_s)
        self._boot_id = self._new_id()
        self._nudge = asyncio.Event()
        self._seen = Sightings(heard_at=boot_clock())
        self._files = NodeFiles(directory, settings.node_id)
        self._processes = EngineProcesses(directory, environ)
        self._accelerators = Accelerators(open_gpus(environ), own_sessions=self._processes.leader_pids)
        self._disk = WeightsDisk(hub)
        self._telemetry = self._make_telemetry()
        self._link = self._make_link()
        self._shipper = UsageShipper(UsageSpool(directory / layout.SPOOL_DIRECTORY), self._link.send, self._new_id)
        self._prompt_shipper = PromptShipper(directory / layout.PROMPTS_DIRECTORY, self._link.send)
        self._gateway = self._make_gateway_keeper(environ)
        self._care = self._make_care(Fetches(hub, environ, self._timers.refusal_retry_s))

    def _make_telemetry(self) -> TelemetrySource:
        return TelemetrySource(
            self._settings.node_id,
            self._boot_id,
            self._files,
            self._accelerators,
            self._disk,
            log_tail=self._processes.log_tail,
        )

    def _make_link(self) -> Link:
        return Link(
            self._settings.control_url,
            self._settings.token,
            hello=self._hello,
            welcomed=self._welcomed,
            removed=self._removed,
            receive=self._received,
            random=self._random,
        )

    def _make_care(self, fetches: Fetches) -> EngineCare:
        return EngineCare(
            self._files,
            self._processes,
            self._accelerators,
            self._adapters,
            fetches=fetches,
            timers=self._timers,
            nudge=self.nudge,
        )

    def _make_gateway_keeper(self, environ: Mapping[str, str]) -> GatewayKeeper | None:
        place = self._settings.gateway
        if place is None:
            return None
        return GatewayKeeper(
            self._settings.node_directory,
            self._settings.node_id,
            place,
            environ,
            has_reported=lambda: self._files.read_gateway_report(time.time()) is not None,
            release=release_of(),
        )

    async def run(self, stopping: asyncio.Event) -> None:
        """Until `stopping`; then engines serve on, unless the settings say otherwise."""
        self._processes.end_strays()
        loops = [self._reconcile_for_ever(), self._tell_for_ever(), self._watch_lease_for_ever(), self._link.run()]
        loops += [self._keep_gateway_for_ever(self._gateway)] if self._gateway else []
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(each) for each in loops]
        tasks.append(asyncio.create_task(self._shipper.run(self._gateway_boot_id)))
        tasks.append(asyncio.create_task(self._prompt_shipper.run()))
        stop = asyncio.create_task(stopping.wait())
        try:
            done, _ = await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stop}:
                task.result()
        finally:
            await _cancel([*tasks, stop])
            await self._care.close()
            if self._settings.stops_engines:
                await self._care.stop_all()
                if self._gateway:
                    await self._gateway.stop()
            self._accelerators.close()

    def nudge(self) -> None:
        self._nudge.set()

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
        try:
            self._files.write_public_key()
            self._files.write_desired()
        except OSError as error:
            log.error("what is wanted is known and not written down: %s", error)  # noqa: TRY400 - the disk is to blame
        is_cut_off = lease.is_cut_off(self._files.desired, self._seen, boot_clock())
        self._care.turn(must_end=is_cut_off or self._files.is_removed)

    # the link

    def _hello(self) -> Hello:
        return Hello(
            node_id=self._settings.node_id,
            boot_id=self._boot_id,
            agent_version=AGENT_VERSION,
            gateway_url=self._settings.gateway_url,
            inventory=take_inventory(self._accelerators, self._adapters.values(), self._disk.sample(time.time())),
        )

    def _welcomed(self, welcome: Welcome) -> None:
        if welcome.node_id != self._settings.node_id:
            raise ConnectionError(f"the token belongs to node {welcome.node_id}, not to {self._settings.node_id}")
        self._files.keep_removed(is_removed=False)
        self._files.keep_public_key(welcome.snapshot_public_key)
        try:
            self._files.keep_limits_url(welcome.limits_url)
        except OSError as error:
            log.error("where limits are shared is not written down: %s", error)  # noqa: TRY400 - the disk is to blame
        self.nudge()

    def _removed(self) -> None:
        log.warning(
            "this node was removed from the fleet: its engines end with what they have, and so does its gateway"
        )
        try:
            self._files.keep_removed(is_removed=True)
        except OSError as error:
            log.error("that is not written down: %s", error)  # noqa: TRY400 - the disk is to blame, not our code
        self.nudge()

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
                try:
                    body = self._telemetry.sample(self._care.reports, time.time())
                    await self._link.send(Telemetry(body=body))
                except ConnectionError as error:
                    log.debug("telemetry was not sent: %s", error)
                except OSError:
                    log.exception("telemetry was not put together; the next comes in %s s", self._timers.turn_s)
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

    async def _keep_gateway_for_ever(self, gateway: GatewayKeeper) -> None:
        while True:
            try:
                if self._files.is_removed:
                    await gateway.stop(REMOVED_GRACE_S)
                else:
                    gateway.turn(boot_clock())
            except OSError:
                log.exception("the gateway was not looked after; the next time is in %s s", self._timers.turn_s)
            await asyncio.sleep(self._timers.turn_s)

    def _gateway_boot_id(self) -> str | None:
        report = self._files.read_gateway_report(time.time())
        return report.boot_id if report else None

    def _new_id(self) -> str:
        return uuid7(time.time(), self._random.getrandbits(74))


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

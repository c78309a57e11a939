"""The engines of this node: looks at them once a turn (reconcile.py), and does what is to be done about them."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from msgspec import structs

from workers.agent.engines import liveness, reconcile
from workers.agent.engines.crashes import CrashFile
from workers.agent.engines.memory import Action, ActionKind, ProcessView, Timers, WeightsView
from workers.agent.engines.offers import LoadTimes, coming_endpoints, offered_endpoints
from workers.agent.engines.pauses import pause_between, without_pause
from workers.agent.engines.probes import probe, put_to_sleep, try_out, wake_up
from workers.agent.engines.processes import EngineProcesses, boot_clock
from workers.agent.hardware.accelerators import Accelerators
from workers.agent.node_files import NodeFiles
from workers.agent.storage.fetches import Fetches
from workers.agent.storage.sources import sources_of
from workers.contracts import layout
from workers.contracts.desired import ReplicaSpec
from workers.contracts.telemetry import EndpointEstimate, GatewayReport, ReplicaReport
from workers.engines.interface import EngineAdapter, SpecRefusedError
from workers.engines.registry import get_adapter

log = logging.getLogger(__name__)

_STOP_POLL_S = 0.1
_STOP_GRACE_S = 3.0


class EngineCare:
    """`nudge` asks for another turn at once. What takes time runs beside, at most once for each replica and kind."""

    def __init__(
        self,
        files: NodeFiles,
        processes: EngineProcesses,
        accelerators: Accelerators,
        adapters: Mapping[str, EngineAdapter],
        *,
        fetches: Fetches,
        timers: Timers,
        nudge: Callable[[], None],
    ) -> None:
        self._files = files
        self._processes = processes
        self._accelerators = accelerators
        self._adapters = adapters
        self._fetches = fetches
        self._timers = timers
        self._nudge = nudge
        self._crashes = CrashFile(files.directory / layout.CRASHES_FILE)
        self._memories = self._crashes.recall()
        self._turned_at: float | None = None
        self._doing: dict[tuple[str, ActionKind], asyncio.Task[None]] = {}
        self._load_times = LoadTimes()
        self.reports: list[ReplicaReport] = []

    def turn(self, *, must_end: bool) -> None:
        processes = self._processes.observe()
        now = boot_clock()
        self._forget_pause(now)
        around = reconcile.Surroundings(
            free_bytes=self._accelerators.free_bytes(),
            must_end=must_end,
            weights=self._missing_weights(processes, now),
            gateway=_estimates_of(self._files.read_gateway_report(time.time())),
        )
        turn = reconcile.turn(self._files.desired, processes, self._memories, self._timers, now, around=around)
        self._memories, self.reports = turn.memories, self._with_memory(turn.reports)
        _whatever_the_disk_says("tell the gateway", lambda: self._offer(turn.reports, processes, now))
        _whatever_the_disk_says("note who leaves", lambda: self._write_down(processes))
        if self._files.desired is not None:
            _whatever_the_disk_says("note who crashed", lambda: self._crashes.keep(self._memories))
        _whatever_the_disk_says("keep logs short", lambda: self._processes.bound_logs(turn.memories.keys()))
        for action in turn.actions:
            _whatever_the_disk_says(action.kind.value, partial(self._carry_out, action, processes))

    async def close(self) -> None:
        tasks = list(self._doing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._fetches.close()

    async def stop_all(self) -> None:
        """At once, whatever they have: only where the settings say that engines end with their agent."""
        for replica_id in self._alive():
            self._processes.stop(replica_id)
        await self._await_end(_STOP_GRACE_S)
        for replica_id in self._alive():
            self._processes.kill(replica_id)
        await self._await_end(_STOP_GRACE_S)
        for replica_id in self._processes.observe():
            self._processes.forget(replica_id)
        self._files.offer([])

    # a turn

    def _forget_pause(self, now: float) -> None:
        pause_s, self._turned_at = pause_between(self._turned_at, now, self._timers), now
        if pause_s:
            log.warning("this agent stood still for %.0f s; that counts against no engine", pause_s)
            self._memories = without_pause(self._memories, pause_s, now)

    def _missing_weights(self, processes: Mapping[str, ProcessView], now: float) -> dict[str, WeightsView]:
        desired = self._files.desired
        absent = [spec for spec in desired.replicas if spec.replica_id not in processes] if desired else []
        wanted = [spec for spec in absent if not spec.is_draining and not spec.is_asleep]
        sources = {spec.replica_id: sources_of(spec, self._adapters) for spec in wanted}
        if desired is not None:
            self._fetches.keep_only({each for those in sources.values() for each in those})
        views = {spec.replica_id: self._fetches.look_at_all(spec, sources[spec.replica_id], now) for spec in wanted}
        return {replica_id: view for replica_id, view in views.items() if view is not None}

    def _offer(self, reports: list[ReplicaReport], processes: Mapping[str, ProcessView], now: float) -> None:
        tells_usage = self._reports_continuous_usage
        coming = coming_endpoints(reports, processes, tells_usage, self._load_times, now=now, unix_time=time.time())
        self._files.offer(offered_endpoints(reports, processes, tells_usage), coming)

    def _reports_continuous_usage(self, engine: str) -> bool:
        adapter = self._adapters.get(engine)
        return adapter is not None and adapter.reports_continuous_usage

    def _with_memory(self, reports: list[ReplicaReport]) -> list[ReplicaReport]:
        used = self._accelerators.used_by_session()
        return [structs.replace(each, memory_bytes=used.get(each.pid)) if each.pid else each for each in reports]

    def _write_down(self, processes: Mapping[str, ProcessView]) -> None:
        for replica_id, memory in self._memories.items():
            process, since = processes.get(replica_id), (memory.draining_since, memory.stopping_since)
            if process and memory.pid == process.pid and since != (process.draining_since, process.stopping_since):
                self._processes.mark_leaving(replica_id, process.pid, since)

    # what is to be done

    def _carry_out(self, action: Action, processes: Mapping[str, ProcessView]) -> None:
        process = processes.get(action.spec.replica_id)
        work = self._work_of(action, process) if process else None
        if work is None:
            self._do_at_once(action)
        else:
            self._beside(action, work)

    def _do_at_once(self, action: Action) -> None:
        replica_id = action.spec.replica_id
        match action.kind:
            case ActionKind.FETCH:
                self._fetch(action.spec)
            case ActionKind.START:
                self._start(action)
            case ActionKind.STOP:
                self._processes.stop(replica_id)
            case ActionKind.KILL:
                self._processes.kill(replica_id)
            case ActionKind.FORGET:
                self._processes.forget(replica_id)
                self._nudge()

    def _work_of(self, action: Action, process: ProcessView) -> Coroutine[Any, Any, None] | None:
        match action.kind:
            case ActionKind.PROBE:
                return self._probe(process)
            case ActionKind.TRY:
                return self._try_out(process, action.limit_s)
            case ActionKind.SLEEP:
                self._processes.mark_asleep(action.spec.replica_id, process.pid)
                return self._tell(put_to_sleep, process)
            case ActionKind.WAKE:
                return self._tell(wake_up, process)
        return None

    def _beside(self, action: Action, work: Coroutine[Any, Any, None]) -> None:
        key = action.spec.replica_id, action.kind
        if key in self._doing:
            work.close()
            return
        task = self._doing[key] = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._doing.pop(key, None))

    def _fetch(self, spec: ReplicaSpec) -> None:
        self._fetches.begin_next(sources_of(spec, self._adapters), boot_clock())

    def _start(self, action: Action) -> None:
        spec = action.spec
        try:
            plan = get_adapter(self._adapters, spec.engine).plan(self._fetches.local_spec(spec))
            self._processes.start(spec, plan)
        except (SpecRefusedError, OSError) as error:
            log.warning("replica %s cannot be started: %s", spec.replica_id, error)
            self._memories[spec.replica_id] = reconcile.remember_refusal(
                self._memories[spec.replica_id], spec, str(error), self._timers, boot_clock()
            )

    async def _probe(self, process: ProcessView) -> None:
        replica_id = process.spec.replica_id
        result = await probe(process, self._adapters)
        memory = self._memories.get(replica_id)
        if memory:
            self._memories[replica_id] = liveness.remember_probe(memory, result, boot_clock())
        if result.is_healthy and not process.has_passed and memory and not memory.is_healthy:
            self._nudge()

    async def _try_out(self, process: ProcessView, limit_s: float) -> None:
        replica_id, began_at = process.spec.replica_id, boot_clock()
        has_passed = await try_out(process, self._adapters, limit_s)
        memory = self._memories.get(replica_id)
        if memory:
            self._memories[replica_id] = liveness.remember_trial(
                memory, process.pid, has_passed=has_passed, began_at=began_at, now=boot_clock()
            )
        if has_passed and (not process.has_passed or process.is_asleep):
            self._processes.mark_passed(replica_id, process.pid)
            if not process.has_passed:
                self._load_times.note(process.spec, boot_clock() - process.started_at)
            self._nudge()

    async def _tell(self, what: Callable[[int], Awaitable[None]], process: ProcessView) -> None:
        """What came of it is seen by the next probe."""
        await what(process.spec.port)
        self._nudge()

    # the end

    async def _await_end(self, limit_s: float) -> None:
        deadline = boot_clock() + limit_s
        while self._alive() and boot_clock() < deadline:  # noqa: ASYNC110 - processes of the last agent give no event
            await asyncio.sleep(_STOP_POLL_S)

    def _alive(self) -> list[str]:
        return [replica_id for replica_id, process in self._processes.observe().items() if process.is_alive]


def _whatever_the_disk_says(what: str, work: Callable[[], None]) -> None:
    """A full disk keeps nobody from being stopped. What was not written is tried again in the next turn."""
    try:
        work()
    except OSError as error:
        log.error("could not %s: %s", what, error)  # noqa: TRY400 - the disk is to blame, not our code


def _estimates_of(report: GatewayReport | None) -> dict[str, EndpointEstimate]:
    return {each.endpoint_id: each for each in report.scheduler.endpoints} if report else {}

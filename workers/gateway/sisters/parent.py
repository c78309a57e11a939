"""The parent of a gateway's processes: it serves nobody itself, and so has nothing to lose.

It holds what must outlive a process: the listening sockets, the inboxes, who owns what, and the limits where there is
no Valkey. It answers the admin port for all, and takes part in a take-over as a gateway of one process does.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from workers.contracts.endpoints import Endpoint
from workers.contracts.snapshot import Snapshot
from workers.contracts.telemetry import GatewayReport
from workers.gateway.driving.recurring import first_of, repeat
from workers.gateway.errors import owner_unavailable
from workers.gateway.http.handover import Listening, offer
from workers.gateway.http.heads import header_lines
from workers.gateway.limits.authority import LocalAuthority
from workers.gateway.limits.ledger import TTL_S
from workers.gateway.observing.admin_port import AdminPort, start_admin
from workers.gateway.sisters import channel, control
from workers.gateway.sisters.child import Child
from workers.gateway.sisters.company import write_report
from workers.gateway.sisters.holding import hold_together
from workers.gateway.sisters.merging import add_totals, merge_reports, totals_of
from workers.gateway.sisters.news import News
from workers.gateway.sisters.overview import Overview, View
from workers.gateway.sisters.ownership import Group, assign, groups_of, until_engines_come
from workers.gateway.sisters.passing import WAIT_S
from workers.gateway.snapshots.files import EndpointsFile, SnapshotFile

logger = logging.getLogger(__name__)

WATCH_EVERY_S = 0.2
# Beside what a process is given for its streams: for batches, the last records and its end.
_ENDING_S = 10.0

# More than a process may take to answer.
ASK_WITHIN_S = 4.0


class Plan(Struct, frozen=True, eq=False):
    """`command_of` makes a process's command of its number and the descriptors that it inherits.

    These are the listening socket, its control socket, the inbox that it reads, and all inboxes to write to.
    """

    processes: int
    gateway_id: str
    boot_id: str
    command_of: Callable[[int, Sequence[int]], list[str]]
    report_file: Path | None
    handover_path: Path
    grace_s: float
    handover_grace_s: float


class Parent:
    def __init__(
        self, plan: Plan, listening: Listening, snapshot_file: SnapshotFile, endpoints_file: EndpointsFile | None
    ) -> None:
        self._plan = plan
        self._listening = listening
        self._snapshot_file = snapshot_file
        self._endpoints_file = endpoints_file
        self._snapshot: Snapshot | None = None
        self._offered: list[Endpoint] = []
        self._owners: dict[str, int] = {}
        self._told: dict[str, int] = {}
        self._inboxes = [channel.open_inbox() for _ in range(plan.processes)]
        self._children = [
            Child(number, self._command, self._hear, self._changed, time.monotonic) for number in range(plan.processes)
        ]
        self._authority = LocalAuthority(ttl_ms=int(TTL_S * 1000), knows_all=True)
        self._news = News(plan.boot_id)
        self._gone: dict[str, int] = {}
        self._beat_at = time.monotonic()
        self._is_stopping = False
        self._has_successor = False
        self._all_up = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.report = self._build_report()

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set, or a successor has taken over; then until the processes have ended."""
        self._look_at_files()
        keeping = [asyncio.create_task(child.keep(self._first_words)) for child in self._children]
        admin = start_admin(self._listening.admin, self._overview())
        succeeded = asyncio.Event()
        recurring = [
            asyncio.create_task(repeat(WATCH_EVERY_S, self._look_at_files)),
            asyncio.create_task(repeat(1.0, self._each_second)),
            asyncio.create_task(self._offer_when_up(admin, succeeded)),
        ]
        try:
            await first_of(stop, succeeded)
            await self._leave(stop, keeping)
        finally:
            for task in recurring:
                task.cancel()
            await asyncio.to_thread(admin.shutdown)
        self._each_second()

    async def _offer_when_up(self, admin: AdminPort, succeeded: asyncio.Event) -> None:
        await self._all_up.wait()
        self._listening.say_ready()
        await offer(self._plan.handover_path, self._listening)
        succeeded.set()
        await asyncio.to_thread(admin.shutdown)
        admin.close()

    async def _leave(self, stop: asyncio.Event, keeping: list[asyncio.Task[None]]) -> None:
        """Nobody may wait at a socket from which no process accepts."""
        self._is_stopping = True
        self._listening.serve.close()
        limit_s = self._plan.grace_s + _ENDING_S
        ended = asyncio.gather(*keeping)
        if not stop.is_set():
            logger.info("the gateway's processes are succeeded, and serve out")
            self._has_successor = True
            for child in self._children:
                child.will_end()
                child.tell(control.Succeeded())
            await _first(ended, stop, self._plan.handover_grace_s + limit_s)
        for child in self._children:
            child.end()
        await asyncio.wait([ended], timeout=limit_s)
        for child in self._children:
            child.end(signal.SIGKILL)
        await ended
        for reading, _ in self._inboxes:
            refuse_waiting(reading)

    # -- from the processes

    def _hear(self, child: Child, message: control.Message) -> None:
        if isinstance(message, control.Told):
            self.report = self._build_report()
            if message.news is not None:
                self._news.add(child.number, message.news)
        elif isinstance(message, control.AskLimits):
            reply = self._authority.exchange(message.holder, message.asks, int(time.time() * 1000))
            child.tell(control.Granted(message.question, reply))

    def _changed(self, child: Child) -> None:
        if not child.is_up and child.told is not None:
            self._gone = add_totals(self._gone, totals_of(child.told.report))
        self._tell_all(self._up())
        if all(each.is_up for each in self._children):
            self._all_up.set()

    # -- to the processes

    def _first_words(self) -> list[control.Message]:
        return [control.Owners(self._told), self._up()]

    def _up(self) -> control.Up:
        return control.Up([child.number for child in self._children if child.is_up])

    def _tell_all(self, message: control.Message) -> None:
        for child in self._children:
            child.tell(message)

    def _command(self, number: int, control_descriptor: int) -> tuple[list[str], Sequence[int]]:
        reading, _ = self._inboxes[number]
        writing = [end.fileno() for _, end in self._inboxes]
        descriptors = [self._listening.serve.fileno(), control_descriptor, reading.fileno(), *writing]
        return self._plan.command_of(number, descriptors), descriptors

    # -- periodic work

    def _look_at_files(self) -> None:
        snapshot = self._snapshot_file.read_if_changed()
        if snapshot is None and self._snapshot is None:
            snapshot = self._snapshot_file.load_last_good()
        offered = self._endpoints_file.read_if_changed() if self._endpoints_file is not None else None
        self._snapshot = snapshot or self._snapshot
        self._offered = offered if offered is not None else self._offered
        if self._snapshot is not None and (snapshot is not None or offered is not None):
            endpoints = [*self._snapshot.endpoints, *self._offered]
            self._own(groups_of(self._snapshot), endpoints)

    def _own(self, groups: list[Group], endpoints: list[Endpoint]) -> None:
        self._owners = assign(groups, endpoints, self._owners, self._plan.processes)
        told = until_engines_come(groups, self._plan.processes) | self._owners
        if told != self._told:
            self._told = told
            self._tell_all(control.Owners(told))

    def _each_second(self) -> None:
        late_s, self._beat_at = time.monotonic() - self._beat_at - 1.0, time.monotonic()
        self.report = self._build_report()
        news = self._news.take()
        if self._plan.report_file is not None and not self._has_successor:
            write_report(self._plan.report_file, self.report, news)
        for child in self._children:
            child.tell(control.Elsewhere(self._held_by_others(child)))
            child.excuse(max(late_s, 0.0))
            child.end_if_hung()
            if not child.is_up and self._beat_at - child.down_since > WAIT_S:
                self._refuse_waiting(child)

    def _refuse_waiting(self, gone: Child) -> None:
        """By a process that is up, which leaves a record of each; by this one, if none is."""
        others = [self._inboxes[child.number][1] for child in self._children if child.is_up]
        refuse_waiting(self._inboxes[gone.number][0], others[0] if others else None)

    def _held_by_others(self, child: Child) -> control.Holds:
        others = [other for other in self._children if other is not child]
        return hold_together(other.told.holds for other in others if other.told is not None)

    def _build_report(self) -> GatewayReport:
        told = [child.told.report for child in self._children if child.told is not None]
        report = merge_reports(self._plan.gateway_id, self._plan.boot_id, told, self._gone)
        return structs.replace(report, is_stopping=report.is_stopping or self._is_stopping)

    # -- the admin port

    def _overview(self) -> Overview:
        return Overview(
            self._plan.boot_id,
            read_views=self._views,
            read_report=lambda: self.report,
            ask_all=self._ask_all,
            seconds_since_beat=lambda: time.monotonic() - self._beat_at,
        )

    def _views(self) -> list[View]:
        now = time.monotonic()
        return [
            View(
                number=child.number,
                is_up=child.is_up,
                restarts=child.restarts,
                silent_s=now - child.heard_at,
                report=child.told.report if child.told is not None else None,
            )
            for child in self._children
        ]

    def _ask_all(self, path: str) -> list[control.Page | None]:
        """From a thread of the admin port."""
        asking = asyncio.run_coroutine_threadsafe(self._gather(path), self._loop)
        try:
            return asking.result(ASK_WITHIN_S)
        except TimeoutError:
            return [None] * len(self._children)

    async def _gather(self, path: str) -> list[control.Page | None]:
        return await asyncio.gather(*(child.ask_page(path) for child in self._children))


def refuse_waiting(inbox: socket.socket, other: socket.socket | None = None) -> None:
    """What was passed to a process that does not come back is answered all the same: by who reads `other`, or here."""
    error = owner_unavailable()
    body = error.body()
    lines = [*error.headers(), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    answer = b"HTTP/1.1 503 Service Unavailable\r\n" + header_lines(lines) + b"\r\n" + body
    while (found := channel.receive(inbox)) is not None:
        passed, client = found
        with client, contextlib.suppress(OSError):
            passed.hops = channel.REFUSED
            if passed.kind != "connection" or (other is not None and channel.send(other, passed, client.fileno())):
                continue
            client.send(answer, socket.MSG_DONTWAIT)


async def _first(ended: "asyncio.Future[list[None]]", stop: asyncio.Event, limit_s: float) -> None:
    stopping = asyncio.create_task(stop.wait())
    waits: list[asyncio.Future[Any]] = [ended, stopping]
    await asyncio.wait(waits, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()

"""A process that is one of several: it passes on what is its sisters', and goes on with what they pass."""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct

from workers.contracts.decisions import DecisionFile
from workers.contracts.endpoints import Endpoint
from workers.contracts.telemetry import GatewayReport
from workers.gateway import errors
from workers.gateway.batches.arriving import Room
from workers.gateway.batches.errands import Asker, Errands
from workers.gateway.exchanges.exchange import Exchange
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.server import ClientConnection
from workers.gateway.limits.link import Authority, authority_at
from workers.gateway.sisters import channel, control
from workers.gateway.sisters.adopting import Adopter
from workers.gateway.sisters.asking_limits import ParentsAuthority
from workers.gateway.sisters.channel import Passed
from workers.gateway.sisters.company import Handle, Parts
from workers.gateway.sisters.errands import ErrandTaker, SharedErrands
from workers.gateway.sisters.ownership import owners_by_model
from workers.gateway.sisters.passing import Passer, Passing
from workers.gateway.sisters.questions import model_of
from workers.gateway.snapshots.directory import Directory

AnswerPage = Callable[[str], tuple[int, str, str]]


class Ends(Struct, frozen=True, eq=False):
    """What a process gets from its parent. It writes to `inboxes`, its own among them, and reads its own."""

    number: int
    serve: socket.socket
    control: socket.socket
    inbox: socket.socket
    inboxes: list[socket.socket]


class Member:
    """`succeeded` is set when nothing new is for this gateway: a successor accepts, or the parent has died."""

    def __init__(self, ends: Ends) -> None:
        self.number = ends.number
        self.succeeded = asyncio.Event()
        self.others_waiting = 0
        self._ends = ends
        self._answer_page: AnswerPage
        self._control: control.Control
        self._questions = control.Questions()
        self._has_owners = asyncio.Event()
        self._owners: dict[str, int] = {}
        self._leaving_versions: set[str] = set()
        self._up: frozenset[int] = frozenset()
        self._is_leaving = False
        self._parts: Parts
        self._directory: Directory | None = None
        self._by_model: dict[str, int] = {}
        self._passer: Passer | None = None
        self._adopter: Adopter
        self._room: Room | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def listening(self) -> socket.socket:
        return self._ends.serve

    async def meet_parent(self, answer_page: AnswerPage) -> None:
        """Returns when it is known what is whose. `answer_page` is what its admin port would show, if it had one."""
        self._answer_page = answer_page
        self._control = await control.open_control(self._ends.control, self._hear)
        self._spawn(self._listen_to_parent())
        await self._has_owners.wait()

    def now_listens(self) -> None:
        self._adopter.start()
        self._control.tell(control.Ready())

    # -- for the process

    def join(self, parts: Parts) -> Handle:
        loop = asyncio.get_running_loop()
        self._parts = parts
        parts.figures.is_one_of_several = True
        self._passer = Passer(self, time.monotonic, loop.call_soon, loop.call_later)
        errand_taker = ErrandTaker(parts.surface, parts.turn, parts.connections, time.time)
        self._adopter = Adopter(self._ends.inbox, self._open_passed, errand_taker.take)
        return self.handle

    def owned(self, endpoints: list[Endpoint]) -> list[Endpoint]:
        """Of what went to a sister those that still have something to do for this process."""
        if self._is_leaving:
            return endpoints
        if self._leaving_versions.isdisjoint(exchange.settlement.version_id for exchange in self._exchanges):
            self._leaving_versions.clear()
        kept = self._leaving_versions
        return [one for one in endpoints if self._owners.get(one.version_id) == self.number or one.version_id in kept]

    def authority(self, url: str, holder: str) -> Authority:
        return authority_at(url, holder) if url else ParentsAuthority(holder, self._control.tell, self._questions)

    def asker(self, errands: Errands) -> Asker:
        return SharedErrands(errands, self._sister_of_model, self._send_errand)

    def watch_arrivals(self, room: Room) -> None:
        self._room = room

    def publish(self, report: GatewayReport, news: DecisionFile | None) -> None:
        figures, connections = self._parts.figures, self._parts.connections
        figures.waiting = len(self._passer or ())
        figures.adopted = self._adopter.adopted
        driver = self._parts.surface.driver
        holds = control.Holds(
            connections=len(connections),
            by_key=connections.crowded_keys(),
            waiting=self._parts.surface.queued_before_last(),
            queued=_by_tenant(driver.count_by_tenant()[0]),
            arriving=self._room.arriving() if self._room is not None else {},
            spent=driver.workflows.told(),
        )
        self._control.tell(control.Told(report, news, holds))

    def begin_leaving(self, *, has_successor: bool) -> None:
        """From now on it serves whatever its own clients ask for."""
        del has_successor  # the parent knows
        self._is_leaving = True
        if self._passer is not None:
            self._passer.take_up_all()

    @property
    def may_get_more(self) -> bool:
        return True

    # -- requests

    def handle(self, client: ClientConnection, request: HttpRequest, hops: int = 0) -> None:
        sister = self._sister_of_model(model_of(request))
        passer, surface = self._passer, self._parts.surface
        if sister is not None and hops > channel.MAX_HOPS:
            self.refuse(client, request)
        elif sister is None or passer is None or hops >= channel.MAX_HOPS or surface.stop_reason is not None:
            surface.handle(client, request)
        else:
            passer.begin(client, request, sister, hops)

    def _sister_of_model(self, model: str) -> int | None:
        """None of what this process answers itself."""
        owner = None if self._is_leaving or not model else self._owner_of_model(model)
        return None if owner == self.number else owner

    def _owner_of_model(self, model: str) -> int | None:
        directory = self._parts.surface.directory
        if directory is not self._directory:
            self._directory = directory
            self._learn()
        return self._by_model.get(model)

    def _learn(self) -> None:
        directory = self._directory
        self._by_model = owners_by_model(directory.snapshot, self._owners) if directory is not None else {}

    def _open_passed(self, hops: int) -> ClientConnection:
        connection = self._parts.open_connection(_Arrival(self, hops).handle)
        if self._is_leaving:
            connection.close_after_next_answer()
        return connection

    @property
    def _exchanges(self) -> list[Exchange]:
        return list(self._parts.surface.exchanges)

    # -- as the passer needs it

    def is_up(self, owner: int) -> bool:
        return owner in self._up

    def flush(self) -> None:
        self._parts.turn.end()

    def send(self, owner: int, client: ClientConnection, asked: bytes, passing: Passing) -> bool:
        refusal = client.refusal
        passed = Passed(
            hops=passing.hops + 1,
            arrived_at=passing.request.arrived_at,
            content=asked,
            refusal=(refusal.status, refusal.code, refusal.message) if refusal is not None else None,
        )
        descriptor = client.transport.get_extra_info("socket").fileno()
        is_sent = channel.send(self._ends.inboxes[owner], passed, descriptor)
        self._parts.figures.passed += is_sent
        return is_sent

    def take_up(self, client: ClientConnection, request: HttpRequest) -> None:
        self._parts.surface.handle(client, request)

    def refuse(self, client: ClientConnection, request: HttpRequest) -> None:
        """As whatever is refused for now: with a record, to those that may ask at all."""
        self._parts.figures.refused += 1
        surface = self._parts.surface
        reason, surface.stop_reason = surface.stop_reason, surface.stop_reason or errors.owner_unavailable()
        try:
            surface.handle(client, request)
        finally:
            surface.stop_reason = reason

    def _send_errand(self, owner: int, errand: bytes, descriptor: socket.socket) -> bool:
        passed = Passed(kind="errand", content=errand)
        return self.is_up(owner) and channel.send(self._ends.inboxes[owner], passed, descriptor.fileno())

    # -- the parent

    async def _listen_to_parent(self) -> None:
        await self._control.run()
        self.succeeded.set()

    def _hear(self, message: control.Message) -> None:
        if isinstance(message, control.Owners):
            self._take_owners(message.by_version)
        elif isinstance(message, control.Up):
            self._up = frozenset(message.numbers)
        elif isinstance(message, control.Elsewhere):
            self._take_elsewhere(message.holds)
        elif isinstance(message, control.Succeeded):
            self.succeeded.set()
        elif isinstance(message, control.WantPage):
            self._spawn(self._answer(message))
        elif isinstance(message, control.Granted):
            self._questions.answered(message.question, message)

    def _take_elsewhere(self, holds: control.Holds) -> None:
        self.others_waiting = holds.waiting
        self._parts.connections.note_elsewhere(holds.connections, holds.by_key)
        self._parts.surface.driver.note_elsewhere(holds.queued, holds.spent)
        if self._room is not None:
            self._room.note_elsewhere(holds.arriving)

    def _take_owners(self, owners: dict[str, int]) -> None:
        lost = [name for name, owner in self._owners.items() if owner == self.number != owners.get(name)]
        self._leaving_versions.update(lost)
        self._owners = owners
        self._learn()
        self._has_owners.set()

    async def _answer(self, wanted: control.WantPage) -> None:
        """On a thread, as an admin port of its own would."""
        status, kind, body = await asyncio.to_thread(self._answer_page, wanted.path)
        self._control.tell(control.Page(wanted.question, status, kind, body))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _by_tenant(counts: Counter[tuple[str, str]]) -> dict[str, int]:
    """Of counts by tenant and class."""
    sums: Counter[str] = Counter()
    for (tenant_id, _), count in counts.items():
        sums[tenant_id] += count
    return dict(sums)


class _Arrival:
    """Knows how often the first request of a connection was passed; what follows comes from the client."""

    def __init__(self, member: Member, hops: int) -> None:
        self._member = member
        self._hops = hops

    def handle(self, client: ClientConnection, request: HttpRequest) -> None:
        hops, self._hops = self._hops, 0
        self._member.handle(client, request, hops)

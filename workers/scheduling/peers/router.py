"""Policies of deployed routers, made of parts: a picker; for gateways with a queue also a gate, an order, a shed."""

import heapq
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct, field

from workers.scheduling.interface import Command, Dispatch, EngineReport, Reject, Request
from workers.scheduling.peers.orders import FirstCome
from workers.scheduling.prefix.index import PrefixIndex


class Target(Struct, eq=False):
    """An endpoint as a router sees it. Counts are its own; `report` is the engine's last word."""

    endpoint_id: str
    number: int
    kv_capacity_tokens: int
    outstanding: int = 0
    prefill_tokens: int = 0
    kv_tokens: int = 0
    report: EngineReport = field(default_factory=lambda: EngineReport(taken_at=0.0, running=0, waiting=0, kv_usage=0.0))


class Sent(Struct, eq=False):
    request: Request
    target: Target
    uncached_tokens: int
    is_prefilling: bool = True


class Picker(Protocol):
    """`targets` is never empty; `hits` are cached tokens per target number, 0 unless it `knows_prefixes`."""

    @property
    def knows_prefixes(self) -> bool: ...
    @property
    def reads_reports(self) -> bool: ...
    def pick(self, request: Request, targets: list[Target], hits: Callable[[Target], int]) -> Target: ...


class Order(Protocol):
    """The least key is served first."""

    def key(self, request: Request) -> tuple[float, ...]: ...
    def served(self, request: Request) -> None: ...
    def is_dynamic(self) -> bool: ...


class Gate(Protocol):
    @property
    def reads_reports(self) -> bool: ...
    def is_open(self, target: Target) -> bool: ...


class Shed(Protocol):
    """Whether a request is refused: on arrival, and again when its turn has come."""

    def at_arrival(self, request: Request, waiting: int, now: float) -> bool: ...
    def at_dispatch(self, request: Request, waiting: int, now: float) -> bool: ...


class Router:
    """Without a gate every request is sent at once; `uses_engine_priorities` then passes the class to the engine."""

    uses_engine_priorities = False

    def __init__(
        self, picker: Picker, *, kv_capacity_tokens: int, gate: Gate | None = None, order: Order | None = None,
        shed: Shed | None = None,
    ) -> None:  # fmt: skip
        self._picker, self._gate, self._shed = picker, gate, shed
        self._order = order or FirstCome()
        self._kv_capacity_tokens = kv_capacity_tokens
        self._targets: dict[str, Target] = {}
        self._sent: dict[int, Sent] = {}
        self._queue: list[tuple[tuple[float, ...], int, Request]] = []
        self._arrivals = 0
        self._index = PrefixIndex()

    @property
    def reads_reports(self) -> bool:
        """Whether what engines say of themselves changes anything."""
        return self._picker.reads_reports or (self._gate is not None and self._gate.reads_reports)

    def endpoint_updated(
        self, endpoint_id: str, version_id: str, max_running: int, now: float, *, is_draining: bool
    ) -> list[Command]:
        del version_id, max_running, now, is_draining
        if endpoint_id not in self._targets:
            self._targets[endpoint_id] = Target(endpoint_id, len(self._targets), self._kv_capacity_tokens)
        return []

    def endpoint_reported(self, endpoint_id: str, report: EngineReport, now: float) -> list[Command]:
        self._targets[endpoint_id].report = report
        return self._drain(now)

    def request_arrived(self, request: Request, now: float) -> list[Command]:
        if self._shed is not None and self._shed.at_arrival(request, len(self._queue), now):
            return [Reject(request.request_id, "queue_full")]
        if self._gate is None:
            return [self._send(request, list(self._targets.values()))]
        self._arrivals += 1
        heapq.heappush(self._queue, (self._order.key(request), self._arrivals, request))
        return self._drain(now)

    def first_token(self, request_id: int, now: float) -> list[Command]:
        sent = self._sent[request_id]
        sent.is_prefilling = False
        sent.target.prefill_tokens -= sent.uncached_tokens
        return self._drain(now)

    def request_finished(self, request_id: int, now: float, output_tokens: int = 0) -> list[Command]:
        del output_tokens
        sent = self._sent.pop(request_id)
        if sent.is_prefilling:
            sent.target.prefill_tokens -= sent.uncached_tokens
        sent.target.outstanding -= 1
        sent.target.kv_tokens -= sent.request.prompt_tokens
        return self._drain(now)

    def tick(self, now: float) -> list[Command]:
        return self._drain(now)

    def next_deadline(self) -> float | None:
        return None

    def _drain(self, now: float) -> list[Command]:
        commands: list[Command] = []
        while self._queue and self._gate is not None:
            open_targets = [target for target in self._targets.values() if self._gate.is_open(target)]
            if not open_targets:
                break
            request = self._pop()
            if self._shed is not None and self._shed.at_dispatch(request, len(self._queue), now):
                commands.append(Reject(request.request_id, "cannot_meet_deadline"))
            else:
                commands.append(self._send(request, open_targets))
        return commands

    def _pop(self) -> Request:
        if self._order.is_dynamic():
            self._queue = [(self._order.key(request), number, request) for _, number, request in self._queue]
            heapq.heapify(self._queue)
        request = heapq.heappop(self._queue)[2]
        self._order.served(request)
        return request

    def _send(self, request: Request, targets: list[Target]) -> Dispatch:
        target = self._picker.pick(request, targets, lambda target: self._hit_tokens(request, target))
        uncached = max(1, request.prompt_tokens - self._hit_tokens(request, target))
        target.outstanding += 1
        target.prefill_tokens += uncached
        target.kv_tokens += request.prompt_tokens
        self._sent[request.request_id] = Sent(request, target, uncached)
        if request.prefix_blocks and self._picker.knows_prefixes:
            self._index.record(request.prefix_blocks, target.number, self._kv_capacity_tokens // request.block_tokens)
        return Dispatch(request.request_id, target.endpoint_id)

    def _hit_tokens(self, request: Request, target: Target) -> int:
        if not request.prefix_blocks or not self._picker.knows_prefixes:
            return 0
        return self._index.count(request.prefix_blocks, target.number) * request.block_tokens

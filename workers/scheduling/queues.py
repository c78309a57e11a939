"""Who waits where, what is sent, and what is refused."""

import heapq
from collections import deque
from math import inf

from workers.scheduling.counts import QueueCounts
from workers.scheduling.decision import Draft
from workers.scheduling.degradable import Degradable
from workers.scheduling.endpoint import EndpointModel
from workers.scheduling.interface import (
    Cancel,
    CancelReason,
    Command,
    Dispatch,
    Migrate,
    Reject,
    RejectCode,
    RejectReason,
    Request,
    SchedulerConfig,
)
from workers.scheduling.latency.lengths import LengthModel
from workers.scheduling.pool import LOOK_AHEAD, Pool
from workers.scheduling.ticket import State, Ticket
from workers.scheduling.tuning import Tuning
from workers.scheduling.workflows import Workflows, is_of_workflow

SHORT_QUEUE = 8
"""Behind more than that, a newcomer waits for the next event: nothing has opened by its coming."""
LEAST_SWEPT = 1000
WAITING = (State.NEW, State.KEPT, State.PARKED, State.LATE)


class Queues:
    """All tickets, one pool per version. Whoever refuses or sends one does it here, so that the counts are right."""

    def __init__(self, config: SchedulerConfig, tuning: Tuning) -> None:
        self._config = config
        self._tuning = tuning
        self.lengths = LengthModel()
        self.workflows = Workflows()
        self.tickets: dict[int, Ticket] = {}
        self.pools: dict[str, Pool] = {}
        self.queued = QueueCounts()
        self.drafts: deque[Draft] = deque(maxlen=config.max_decisions)
        self._numbers = 0
        self._hopeless: list[tuple[float, int, Ticket]] = []
        self._degradable = Degradable()

    def next_opening_at(self) -> float:
        """When an endpoint opens by itself that somebody waits for."""
        opening_at = inf
        for pool in self.pools.values():
            if pool.waiting:
                opening_at = min(opening_at, pool.next_opening_at())
        return opening_at

    def any_opens_at(self) -> float:
        """When an endpoint opens by itself, whether or not somebody waits for it."""
        opens_at = inf
        for pool in self.pools.values():
            opens_at = min(opens_at, pool.fleet.next_opening_at())
        return opens_at

    def pool_of(self, version_id: str, now: float) -> Pool:
        pool = self.pools.get(version_id)
        if pool is None:
            pool = self.pools[version_id] = Pool(self._tuning, self.lengths, self.workflows, self.drafts, now)
        return pool

    # -- newcomers

    def arrive(self, request: Request, now: float) -> list[Command]:
        self._numbers += 1
        ticket = Ticket(request, self._numbers, request.version_id)
        self.tickets[request.request_id] = ticket
        pool = self.pool_of(request.version_id, now)
        lost_for = self.workflows.arrived(request, now) if request.workflow_id else None
        if lost_for is not None:
            return [self.forget(ticket, "cannot_meet_deadline", now, lost_for)]
        endpoint = pool.arrive(ticket, now)
        if endpoint is not None:
            return [_dispatch(ticket, endpoint)]
        return self._wait(ticket, pool, now)

    def _wait(self, ticket: Ticket, pool: Pool, now: float) -> list[Command]:
        """What follows when a newcomer could not be sent at once."""
        request = ticket.request
        self.queued.add(ticket)
        self._note_hopeless(ticket)
        if pool.is_too_late(ticket, now):
            return (self._degrade(ticket, now) if request.alternatives else None) or self.cancel_lost(now)
        commands = self.fill(pool, now) if len(pool.waiting) <= SHORT_QUEUE else []
        if ticket.endpoint is None and request.alternatives:
            self._degradable.add(ticket)
            if pool.cannot_make(ticket, now):
                commands += self._degrade(ticket, now) or []
        if ticket.endpoint is not None:
            return commands
        if self.queued.exceeds_of_tenant(request):
            return commands + self.refuse(ticket, "queue_full", now)
        if self.queued.exceeds_total(self._config):
            return commands + self.refuse(self.queued.least_deserving(ticket), "queue_full", now)
        return commands

    def _note_hopeless(self, ticket: Ticket) -> None:
        """Deadlines may lie days ahead: who waits no more is swept out now and then."""
        if ticket.hopeless_at == inf:
            return
        heapq.heappush(self._hopeless, (ticket.hopeless_at, ticket.number, ticket))
        if len(self._hopeless) > 2 * self.queued.total + LEAST_SWEPT:
            self._hopeless = [entry for entry in self._hopeless if _waits(entry)]
            heapq.heapify(self._hopeless)

    def requeue(self, ticket: Ticket, failed_on: EndpointModel, now: float) -> list[Command]:
        """It keeps its place: what it is judged by is its arrival."""
        ticket.failed_on = failed_on
        ticket.first_token_at = None
        ticket.waits_since = now
        pool = self.pool_of(ticket.version_id, now)
        endpoint = pool.arrive(ticket, now)
        if endpoint is not None:
            return [_dispatch(ticket, endpoint)]
        self.queued.add(ticket)
        if ticket.generated_tokens and ticket.request.deadline_at is not None:
            ticket.hopeless_at = ticket.request.deadline_at  # what has begun is not given up for a guess
        self._note_hopeless(ticket)
        if not ticket.generated_tokens:
            self._degradable.add(ticket)
        return self.fill(pool, now)

    def dequeue(self, ticket: Ticket) -> None:
        self.pools[ticket.version_id].withdraw(ticket)
        self.queued.remove(ticket)
        self._degradable.remove(ticket)

    def degrade_waiting(self, now: float) -> list[Command]:
        """What lost the prospect of being in time after it came, as far as there is room elsewhere."""
        commands: list[Command] = []
        for alternatives in self._degradable.alternatives() if self._degradable else ():
            if any(pool.has_room(now) for pool in map(self.pools.get, alternatives) if pool is not None):
                commands += self._degrade_of(alternatives, now)
        return commands

    def _degrade_of(self, alternatives: tuple[str, ...], now: float) -> list[Command]:
        commands: list[Command] = []
        for ticket in self._degradable.next_of(alternatives):
            was_sent = not self._degradable.holds(ticket)  # where one before it came
            if was_sent or not self.pools[ticket.version_id].cannot_make(ticket, now):
                continue
            moved = self._degrade(ticket, now)
            if moved is None:
                break
            commands += moved
        return commands

    def _degrade(self, ticket: Ticket, now: float) -> list[Command] | None:
        """To the first of its alternatives that has room now; None when it stays. An answer begun is not changed."""
        deadline_at = ticket.request.deadline_at
        if ticket.generated_tokens or (deadline_at is not None and deadline_at <= now):
            return None
        for version_id in ticket.request.alternatives:
            other = self.pools.get(version_id)
            if other is None or version_id == ticket.version_id or not other.has_room(now):
                continue
            self.dequeue(ticket)
            other.note_usable(now)  # it may be gone before a tick sees it, and the ticket has waited long elsewhere
            self._numbers += 1
            ticket.number, ticket.version_id = self._numbers, version_id
            endpoint = other.arrive(ticket, now)
            if endpoint is not None:
                return [_dispatch(ticket, endpoint)]
            self.queued.add(ticket)
            self._note_hopeless(ticket)
            return [] if other.is_too_late(ticket, now) else self.fill(other, now)
        return None

    def fill(self, pool: Pool, now: float, look_ahead: int = LOOK_AHEAD) -> list[Command]:
        commands: list[Command] = []
        for ticket, endpoint, batch in pool.fill(now, look_ahead):
            self.queued.remove(ticket)
            self._degradable.remove(ticket)
            commands.append(_dispatch(ticket, endpoint, batch))
        return commands

    # -- refusals

    def refuse(self, ticket: Ticket, code: RejectCode, now: float, reason: RejectReason = "") -> list[Command]:
        """Of a waiting ticket: an alternative before an error."""
        if ticket.request.alternatives and not reason and ticket.version_id == ticket.request.version_id:
            commands = self._degrade(ticket, now)
            if commands is not None:
                return commands
        waited_as = ticket.state
        self.dequeue(ticket)
        ticket.state = waited_as
        return [self.forget(ticket, code, now, reason)]

    def forget(self, ticket: Ticket, code: RejectCode, now: float, reason: RejectReason = "") -> Reject:
        request = ticket.request
        del self.tickets[request.request_id]
        self.gone(ticket)
        pool = self.pools[ticket.version_id]
        pool.explain(ticket, "refused", ticket.state, now, reason or code)
        ticket.state = State.GONE
        if code == "attempts_exhausted" or reason:
            return Reject(request.request_id, code, None, reason)
        if code == "no_endpoint":
            return Reject(request.request_id, code, pool.ready_in_s(now, self._config.patience_s))
        return Reject(request.request_id, code, pool.retry_after_s(ticket, now))

    def gone(self, ticket: Ticket) -> None:
        """Without an answer, while it waited: before its first attempt, or after one that failed."""
        self.workflows.ended(ticket.request, ticket.generated_tokens, ticket.cost_s if ticket.attempts else 0.0)

    def reject_impatient(self, pool: Pool, now: float) -> list[Command]:
        oldest_welcome = now - self._config.patience_s
        if pool.usable_at >= oldest_welcome:
            return []
        impatient = [ticket for ticket in pool.waiting.values() if ticket.waits_since < oldest_welcome]
        return [command for ticket in impatient for command in self.refuse(ticket, "no_endpoint", now)]

    def cancel_lost(self, now: float) -> list[Command]:
        """Calls of workflows past their deadline, and what waits without hope of its deadline."""
        commands = self.cut_off(self.workflows.lost(now), "workflow_deadline", now)
        while self._hopeless and self._hopeless[0][0] < now:
            entry = heapq.heappop(self._hopeless)
            ticket = entry[2]
            if _waits(entry):
                doomed = self.workflows.doom(ticket.request)
                reason: RejectReason = "workflow_deadline" if is_of_workflow(ticket.request) else "deadline_passed"
                commands += self.refuse(ticket, "cannot_meet_deadline", now, reason)
                commands += self.cut_off(doomed, "workflow_deadline", now)
        return commands

    def cut_off(self, request_ids: list[int], reason: CancelReason, now: float) -> list[Command]:
        commands: list[Command] = []
        for request_id in request_ids:
            ticket = self.tickets[request_id]
            if ticket.endpoint is None:
                commands += self.refuse(ticket, "cannot_meet_deadline", now, reason)
            else:
                commands.append(Cancel(request_id, reason))
        return commands


def _waits(entry: tuple[float, int, Ticket]) -> bool:
    """Where it did when it was put here."""
    _, number, ticket = entry
    return ticket.state in WAITING and ticket.number == number


def _dispatch(ticket: Ticket, endpoint: EndpointModel, batch: int = 0) -> Command:
    request = ticket.request
    if ticket.generated_tokens:
        return Migrate(request.request_id, endpoint.endpoint_id)
    version_id = "" if ticket.version_id == request.version_id else ticket.version_id
    return Dispatch(request.request_id, endpoint.endpoint_id, version_id, batch)

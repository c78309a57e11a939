"""A connection goes to the owner of what it asks for, once nothing is left to be written to it here.

waiting ──owner up, room, all written──▶ passed          ──too long, or part of it cannot be sent──▶ refused
   └──client left──▶ over                                ──this process owns all by now──▶ taken up here
"""

from collections.abc import Callable
from typing import Literal, Protocol

from msgspec import Struct

from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.server import ClientConnection

# For an owner that died to be back, or for room in its inbox.
WAIT_S = 5.0
# For a client to take the answers that it has.
WRITTEN_WITHIN_S = 60.0
LOOK_EACH_S = 0.02

Step = Literal["pass", "wait", "refuse", "cut"]


class Facts(Struct, frozen=True):
    """`is_written`: nothing is left to write to the client. `can_be_told`: what it asked can be sent on."""

    is_owner_up: bool
    is_written: bool
    can_be_told: bool
    waited_s: float


def next_step(facts: Facts) -> Step:
    if not facts.is_written:
        return "wait" if facts.waited_s < WRITTEN_WITHIN_S else "cut"
    if not facts.can_be_told:
        return "refuse"
    if facts.is_owner_up:
        return "pass"
    return "wait" if facts.waited_s < WAIT_S else "refuse"


class Sisters(Protocol):
    """What passing needs to know and to do."""

    def is_up(self, owner: int) -> bool: ...
    def flush(self) -> None:
        """What is to be written is written, as far as it goes."""

    def send(self, owner: int, client: ClientConnection, asked: bytes, passing: "Passing") -> bool: ...
    def take_up(self, client: ClientConnection, request: HttpRequest) -> None: ...
    def refuse(self, client: ClientConnection, request: HttpRequest) -> None: ...


class Passing(Struct, eq=False):
    """Owns the answer until another process does. `since` when, on the passer's clock."""

    passer: "Passer"
    client: ClientConnection
    request: HttpRequest
    owner: int
    hops: int
    since: float
    is_over: bool = False

    def client_left(self) -> None:
        self.is_over = True
        self.passer.forget(self)

    def client_paused(self) -> None:
        """Nothing is written to it meanwhile."""

    def client_resumed(self) -> None:
        """It is looked at often enough."""


class Timer(Protocol):
    def cancel(self) -> None: ...


class Passer:
    """All that wait to be passed. `call_soon` runs a function when what has been read in this turn is dealt with."""

    def __init__(
        self,
        sisters: Sisters,
        monotonic: Callable[[], float],
        call_soon: Callable[[Callable[[], None]], object],
        call_later: Callable[[float, Callable[[], None]], Timer],
    ) -> None:
        self._sisters = sisters
        self._monotonic = monotonic
        self._call_soon = call_soon
        self._call_later = call_later
        self._waiting: dict[int, Passing] = {}
        self._is_look_due = False
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, client: ClientConnection, request: HttpRequest, owner: int, hops: int) -> None:
        """Later in this turn: what came together with the request has been read by then, and goes with it."""
        passing = Passing(self, client, request, owner, hops, self._monotonic())
        client.owner = passing
        self._waiting[id(passing)] = passing
        if not self._is_look_due:
            self._is_look_due = True
            self._call_soon(self.look)

    def forget(self, passing: Passing) -> None:
        self._waiting.pop(id(passing), None)

    def take_up_all(self) -> None:
        """Whatever comes is answered here from now on."""
        for passing in list(self._waiting.values()):
            self.forget(passing)
            passing.client.owner = None
            self._sisters.take_up(passing.client, passing.request)

    def look(self) -> None:
        self._is_look_due = False
        if self._waiting:
            self._sisters.flush()
        for passing in list(self._waiting.values()):
            if not passing.is_over:
                self._advance(passing)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._call_later(LOOK_EACH_S, self.look) if self._waiting else None

    def _advance(self, passing: Passing) -> None:
        client, sisters = passing.client, self._sisters
        waited_s = self._monotonic() - passing.since
        is_written = not client.transport.get_write_buffer_size()
        asked = client.unanswered() if is_written else None
        step = next_step(Facts(sisters.is_up(passing.owner), is_written, asked is not None, waited_s))
        if step == "pass" and asked is not None:
            self._send(passing, asked, waited_s)
        elif step == "refuse":
            self._refuse(passing)
        elif step == "cut":
            client.transport.abort()

    def _send(self, passing: Passing, asked: bytes, waited_s: float) -> None:
        if self._sisters.send(passing.owner, passing.client, asked, passing):
            self.forget(passing)
            passing.client.let_go()
        elif waited_s >= WAIT_S:
            self._refuse(passing)

    def _refuse(self, passing: Passing) -> None:
        self.forget(passing)
        passing.client.owner = None
        self._sisters.refuse(passing.client, passing.request)

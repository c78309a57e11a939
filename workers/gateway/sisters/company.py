"""Whether a process serves alone or is one of several: all that the rest of it knows of that."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from workers.contracts import layout
from workers.contracts.decisions import DecisionFile
from workers.contracts.endpoints import Endpoint
from workers.contracts.telemetry import GatewayReport
from workers.gateway.batches.arriving import Room
from workers.gateway.batches.errands import Asker, Errands
from workers.gateway.front.surface import Surface
from workers.gateway.http.connections import Connections
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.server import ClientConnection
from workers.gateway.http.turns import Turn
from workers.gateway.limits.link import Authority, authority_at
from workers.gateway.sisters.figures import SisterFigures

Handle = Callable[[ClientConnection, HttpRequest], None]


class Parts(Struct, frozen=True, eq=False):
    """Of the process. `open_connection` makes a client's whose requests go to that function."""

    surface: Surface
    connections: Connections
    turn: Turn
    figures: SisterFigures
    open_connection: Callable[[Handle], ClientConnection]


class Company(Protocol):
    """What the rest of a process does not know of it."""

    def join(self, parts: Parts) -> Handle:
        """Who gets the requests of clients."""

    def owned(self, endpoints: list[Endpoint]) -> list[Endpoint]:
        """Those that this process sends to."""

    def authority(self, url: str, holder: str) -> Authority: ...
    def asker(self, errands: Errands) -> Asker: ...
    def watch_arrivals(self, room: Room) -> None: ...
    def publish(self, report: GatewayReport, news: DecisionFile | None) -> None: ...
    def begin_leaving(self, *, has_successor: bool) -> None: ...

    @property
    def others_waiting(self) -> int:
        """Requests that wait at other processes, those of batches left out."""

    @property
    def may_get_more(self) -> bool:
        """Whether clients may still come that were others' before."""


class Alone:
    """One process, which writes its reports itself; without a file nobody reads them."""

    def __init__(self, report_file: Path | None) -> None:
        self._report_file = report_file
        self._has_successor = False

    def join(self, parts: Parts) -> Handle:
        return parts.surface.handle

    def owned(self, endpoints: list[Endpoint]) -> list[Endpoint]:
        return endpoints

    def authority(self, url: str, holder: str) -> Authority:
        return authority_at(url, holder)

    def asker(self, errands: Errands) -> Asker:
        return errands

    def watch_arrivals(self, room: Room) -> None:
        """There are no others."""

    def publish(self, report: GatewayReport, news: DecisionFile | None) -> None:
        if self._report_file is not None and not self._has_successor:
            write_report(self._report_file, report, news)

    def begin_leaving(self, *, has_successor: bool) -> None:
        """The successor's reports are read from then on."""
        self._has_successor = has_successor

    @property
    def others_waiting(self) -> int:
        return 0

    @property
    def may_get_more(self) -> bool:
        return False


def write_report(path: Path, report: GatewayReport, news: DecisionFile | None) -> None:
    layout.write_whole(path, msgspec.json.encode(report), is_durable=False)
    if news is not None:
        layout.write_whole(path.with_name(layout.DECISIONS_FILE), msgspec.json.encode(news), is_durable=False)

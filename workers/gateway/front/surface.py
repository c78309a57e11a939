"""Who asks for what, and who answers: the gateway itself or an engine."""

import logging
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol
from urllib.parse import unquote

from workers.gateway import errors
from workers.gateway.apis.paths import ENGINE_PATHS, METHOD, NO_ENGINE, EnginePath, api_of
from workers.gateway.driving.driver import Driver
from workers.gateway.errors import GatewayError
from workers.gateway.exchanges.exchange import Exchange
from workers.gateway.exchanges.facilities import Facilities
from workers.gateway.front.intake import Intake
from workers.gateway.front.introduction import Introduction, given_id
from workers.gateway.front.marks import Errand
from workers.gateway.front.model_list import models_body
from workers.gateway.front.outcomes import OUTCOMES, outcome_body, read_outcome
from workers.gateway.front.rerouting import reroute
from workers.gateway.front.scopes import require_scope
from workers.gateway.front.stored import RESPONSES, answer_stored
from workers.gateway.http.connections import Connections
from workers.gateway.http.heads import Headers
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.server import ClientConnection
from workers.gateway.limits.admission import Limits
from workers.gateway.payload.labels import REQUEST_ID
from workers.gateway.records.journal import Journal
from workers.gateway.records.metering import Meter
from workers.gateway.snapshots.directory import Directory, Grant

logger = logging.getLogger(__name__)

_MODELS = b"/v1/models"
_HEALTH = b"/health"
_PING = b"/ping"
_RATE_HEADERS = [
    f"x-ratelimit-{what}-{of}" for of in ("requests", "tokens") for what in ("limit", "remaining", "reset")
]
_EXPOSED_HEADERS = ", ".join(
    [REQUEST_ID.decode(), "retry-after", "server-timing", "x-degraded-to", *_RATE_HEADERS]
).encode()


Handle = Callable[[ClientConnection, HttpRequest], None]


class OwnPath(Protocol):
    """Answers what is asked below one path: at once, or later. `headers` are ours, for its answer."""

    def __call__(self, client: ClientConnection, request: HttpRequest, grant: Grant, headers: Headers) -> None: ...


class Surface:
    """Answers requests itself, or hands them to the intake of engines.

    `own_paths` is who answers below `/v1/<name>` what no engine is asked for, `peer_paths` what other gateways ask.
    """

    def __init__(
        self,
        *,
        driver: Driver,
        meter: Meter,
        limits: Limits,
        journal: Journal,
        connections: Connections,
        monotonic: Callable[[], float],
        unix_time: Callable[[], float],
        randomness: random.Random,
        count_unrecorded: Callable[[str], None],
    ) -> None:
        self.driver = driver
        self.meter = meter
        self._facilities = Facilities(driver, meter, journal, monotonic)
        self.intake = Intake(
            self._facilities,
            limits=limits,
            connections=connections,
            randomness=randomness,
            introduce=self._introduce_again,
            count_unrecorded=count_unrecorded,
        )
        self._facilities.reroute = self._reroute
        self.directory: Directory | None = None
        self.own_paths: dict[bytes, OwnPath] = {
            _MODELS: self._answer_models,
            OUTCOMES: self._take_outcome,
            RESPONSES: answer_stored,
        }
        self.peer_paths: dict[bytes, Handle] = {}
        self._unix_time = unix_time
        self._count_unrecorded = count_unrecorded

    @property
    def exchanges(self) -> set[Exchange]:
        return self._facilities.exchanges

    @property
    def stop_reason(self) -> GatewayError | None:
        """Set while nothing is admitted."""
        return self.intake.stop_reason

    @stop_reason.setter
    def stop_reason(self, reason: GatewayError | None) -> None:
        self.intake.stop_reason = reason

    def handle(self, client: ClientConnection, request: HttpRequest) -> None:
        """Every request is answered: a GatewayError becomes the answer."""
        introduction = request.head.introduction
        if introduction is not None and not introduction.holds(self.directory, self._unix_time()):
            introduction = None
        extra_headers = introduction.extra_headers if introduction is not None else self._cors_headers(request)
        try:
            if introduction is not None:
                self.intake.take(client, request, introduction)
            else:
                self._route(client, request, extra_headers)
        except GatewayError as error:
            self.respond_error(client, request, error, extra_headers)
        except Exception:
            logger.exception("request failed")
            if client.current is not request:
                return
            if client.owner is None:
                self.respond_error(client, request, errors.internal(), extra_headers)
            elif isinstance(client.owner, Exchange):
                client.owner.give_up(errors.internal())

    def run_errand(self, client: ClientConnection, request: HttpRequest, errand: Errand) -> None:
        directory = self._require_directory()
        introduction = Introduction(directory, errand.grant, ENGINE_PATHS[request.path], request, [])
        self.intake.take(client, request, introduction, errand)

    def _reroute(self, exchange: Exchange) -> None:
        """By what is known now. What the gateway asks itself for a batch is asked again by that."""
        if exchange.settlement.is_kept or self.stop_reason is not None:
            return
        with suppress(GatewayError):
            reroute(self.intake, exchange, self._introduce_again(exchange.question.request))

    def _introduce_again(self, request: HttpRequest) -> Introduction:
        grant, directory = self.authenticate(request), self._require_directory()
        known = request.head.introduction
        extra_headers = known.extra_headers if known is not None else self._cors_headers(request)
        introduction = Introduction(directory, grant, ENGINE_PATHS[request.path], request, extra_headers)
        introduction.is_again = True
        return introduction

    def respond_error(
        self, client: ClientConnection, request: HttpRequest, error: GatewayError, extra_headers: Headers
    ) -> None:
        self._count_unrecorded(error.code)
        api = api_of(request.path)
        named = api.answer_headers(self._id_of(request)) if request.path in ENGINE_PATHS else []
        client.respond(error.status, [*api.error_headers(error), *named, *extra_headers], api.error_body(error))

    def _id_of(self, request: HttpRequest) -> str:
        return given_id(request.header(REQUEST_ID)) or self.intake.new_id()

    def in_flight(self) -> dict[str, tuple[int, int]]:
        """(running, waiting) by public model, of every model there is."""
        models = [route.public_name for route in self.directory.snapshot.routes] if self.directory is not None else []
        waiting = Counter(exchange.public_model for exchange in self.exchanges if exchange.is_waiting)
        running = Counter(exchange.public_model for exchange in self.exchanges if not exchange.is_waiting)
        return {model: (running[model], waiting[model]) for model in models}

    def queued_before_last(self) -> int:
        """Requests that wait in a class before the last, in which batches are."""
        last = self.directory.lowest_rank if self.directory is not None else 0
        queued = self.driver.scheduler.queued_by_rank()
        return sum([count for rank, count in queued.items() if rank < last])

    def _route(self, client: ClientConnection, request: HttpRequest, extra_headers: Headers) -> None:
        path = request.path
        if request.method == b"OPTIONS" and request.header(b"access-control-request-method"):
            client.respond(200, _preflight_headers(request) + extra_headers, b"")
        elif (engine_path := ENGINE_PATHS.get(path)) is not None:
            self._introduce(client, request, engine_path, extra_headers)
        elif (straight := path.rstrip(b"/")) in ENGINE_PATHS:
            client.respond(307, [(b"location", _with_query(straight, request)), *extra_headers], b"")
        elif (own_path := self.own_paths.get(name := b"/".join(path.split(b"/", 3)[:3]))) is not None:
            grant = self.authenticate(request)
            require_scope(client, request, grant, self._require_directory(), name)
            own_path(client, request, grant, extra_headers)
        elif (peer_path := self.peer_paths.get(path)) is not None:
            peer_path(client, request)
        elif path in (_HEALTH, _PING):
            self._answer_health(client, request, extra_headers)
        else:
            raise errors.path_unknown(path.decode("utf-8", "replace"))

    # -- who asks

    def _introduce(
        self, client: ClientConnection, request: HttpRequest, path: EnginePath, extra_headers: Headers
    ) -> None:
        if request.method != METHOD:
            raise errors.method_not_allowed(METHOD.decode())
        grant = self.authenticate(request)
        introduction = Introduction(self._require_directory(), grant, path, request, extra_headers)
        request.head.introduction = introduction
        self.intake.take(client, request, introduction)

    def _require_directory(self) -> Directory:
        if self.directory is None:
            raise errors.not_ready("it has no snapshot from the control plane")
        return self.directory

    def authenticate(self, request: HttpRequest) -> Grant:
        directory = self._require_directory()
        scheme, _, key = request.header(b"authorization").partition(b" ")
        if scheme.lower() != b"bearer" or not key.strip():
            key = request.header(b"x-api-key")
        if not key.strip():
            raise errors.key_missing()
        grant = directory.find_grant(key.strip(), self._unix_time())
        if grant is None:
            raise errors.key_invalid()
        return grant

    def _cors_headers(self, request: HttpRequest) -> Headers:
        origin = request.header(b"origin")
        if not origin or self.directory is None or origin not in self.directory.cors_origins:
            return []
        exposed = (b"access-control-expose-headers", _EXPOSED_HEADERS)
        return [(b"access-control-allow-origin", origin), (b"vary", b"Origin"), exposed]

    # -- what we answer ourselves

    def _answer_health(self, client: ClientConnection, request: HttpRequest, headers: Headers) -> None:
        """As engines say it, without a body and to anybody: some clients ask before they begin."""
        if request.path == _HEALTH or request.method != METHOD:
            require_method(request, "GET")
        self._require_directory()
        if self.stop_reason is not None:
            raise self.stop_reason
        client.respond(200, headers, b"")

    def _answer_models(self, client: ClientConnection, request: HttpRequest, grant: Grant, headers: Headers) -> None:
        require_method(request, "GET")
        name = unquote(request.path[len(_MODELS) + 1 :].decode("utf-8", "replace"))
        body = models_body(self._require_directory(), grant, name)
        client.respond(200, [(b"content-type", b"application/json"), *headers], body)

    def _take_outcome(self, client: ClientConnection, request: HttpRequest, grant: Grant, headers: Headers) -> None:
        """Kept in the spool, as usage is: so it is taken with the control plane down, and never without a spool."""
        if request.path != OUTCOMES:
            raise errors.path_unknown(request.path.decode("utf-8", "replace"))
        require_method(request, "POST")
        if self.stop_reason is not None:
            raise self.stop_reason
        told = read_outcome(request.body)
        introduction = Introduction(self._require_directory(), grant, NO_ENGINE, request, headers)
        self.meter.note_outcome(self.intake.open_settlement(request, introduction), told)
        client.respond(200, [(b"content-type", b"application/json"), *headers], outcome_body(told))


def _preflight_headers(request: HttpRequest) -> Headers:
    asked = request.header(b"access-control-request-headers") or b"authorization, content-type"
    return [
        (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
        (b"access-control-allow-headers", asked),
        (b"access-control-max-age", b"600"),
    ]


def _with_query(path: bytes, request: HttpRequest) -> bytes:
    query = request.head.query
    return path + b"?" + query if query else path


def require_method(request: HttpRequest, method: str) -> None:
    allowed = (b"GET", b"HEAD") if method == "GET" else (method.encode(),)
    if request.method not in allowed:
        raise errors.method_not_allowed(b", ".join(allowed).decode())

"""Who asks for what, and who answers: the gateway itself or an engine."""

import logging
import random
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Struct

from workers.contracts.pricing import price_for
from workers.contracts.settlement import NOTHING, Settlement
from workers.contracts.snapshot import Route, Version
from workers.contracts.usage import Outcome, UsageRecord
from workers.gateway import errors
from workers.gateway.applying import Candidate
from workers.gateway.asking import Question
from workers.gateway.bodies import Peek, peek
from workers.gateway.body_limits import check_body
from workers.gateway.connections import Connections
from workers.gateway.directory import Directory, Grant
from workers.gateway.driver import Driver
from workers.gateway.errors import GatewayError
from workers.gateway.exchange import Exchange
from workers.gateway.forms import peek_form
from workers.gateway.heads import Headers
from workers.gateway.journal import Journal
from workers.gateway.kv_events.reader import CacheReader
from workers.gateway.labels import MAX_WORKFLOW_ID, note_headers, read_tags, sticky_id, trace_parent
from workers.gateway.limits.admission import Limits
from workers.gateway.metering import Meter, outcome_of
from workers.gateway.networks import client_address, peer_of
from workers.gateway.outcomes import OUTCOMES, outcome_body, read_outcome
from workers.gateway.paths import ENGINE_PATHS, METHOD, EnginePath, api_of
from workers.gateway.peeks import end_user_of, wants_stream
from workers.gateway.prompts import PromptKeeper
from workers.gateway.requests import HttpRequest
from workers.gateway.server import ClientConnection
from workers.gateway.stored import RESPONSES, answer_stored, refuse_what_is_kept
from workers.gateway.terms import Caller, Terms, read_terms
from workers.gateway.tracing.tracer import Tracer

logger = logging.getLogger(__name__)

_MODELS = b"/v1/models"
_HEALTH = b"/health"
_MAX_REQUEST_ID = 128
_RATE_HEADERS = [
    f"x-ratelimit-{what}-{of}" for of in ("requests", "tokens") for what in ("limit", "remaining", "reset")
]
_EXPOSED_HEADERS = ", ".join(["x-request-id", "retry-after", "server-timing", "x-degraded-to", *_RATE_HEADERS]).encode()


class Asked(Struct, frozen=True, eq=False):
    """A request for an engine, from somebody known."""

    request: HttpRequest
    path: EnginePath
    noted: dict[bytes, bytes]
    grant: Grant

    def peek(self) -> Peek:
        if self.path.is_form:
            return peek_form(self.request.body, self.noted.get(b"content-type", b""))
        return peek(self.request.body)


class Errand(Struct, frozen=True, eq=False):
    """A request on behalf of a key that was shown before. `keep_record` gets its usage record, called `record_id`."""

    grant: Grant
    record_id: str
    tags: dict[str, str]
    keep_record: Callable[[UsageRecord], None]


class OwnPath(Protocol):
    """Answers what is asked below one path: at once, or later. `headers` are ours, for its answer."""

    def __call__(self, client: ClientConnection, request: HttpRequest, grant: Grant, headers: Headers) -> None: ...


class Surface:
    """Answers requests itself, or hands them to an `Exchange`. `stop_reason` is set while it admits nothing.

    `own_paths` is who answers below `/v1/<name>` what no engine is asked for.
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
        self.limits = limits
        self.journal = journal
        self._connections = connections
        self.monotonic = monotonic
        self.exchanges: set[Exchange] = set()
        self.directory: Directory | None = None
        self.stop_reason: GatewayError | None = None
        self.tracer: Tracer | None = None
        self.prompts: PromptKeeper | None = None
        self.caches: CacheReader | None = None
        self.own_paths: dict[bytes, OwnPath] = {
            _MODELS: self._answer_models,
            OUTCOMES: self._take_outcome,
            RESPONSES: answer_stored,
        }
        self._unix_time = unix_time
        self._randomness = randomness
        self._count_unrecorded = count_unrecorded

    def handle(self, client: ClientConnection, request: HttpRequest) -> None:
        """Every request is answered: a GatewayError becomes the answer."""
        extra_headers = self._cors_headers(request)
        try:
            self._route(client, request, extra_headers)
        except GatewayError as error:
            self.respond_error(client, request, error, extra_headers)
        except Exception:
            logger.exception("request failed")
            if client.current is request and client.owner is None:
                self.respond_error(client, request, errors.internal(), extra_headers)

    def run_errand(self, client: ClientConnection, request: HttpRequest, errand: Errand) -> None:
        self._ask_engine(client, request, ENGINE_PATHS[request.path], [], grant=errand.grant, errand=errand)

    def respond_error(
        self, client: ClientConnection, request: HttpRequest, error: GatewayError, extra_headers: Headers
    ) -> None:
        self._count_unrecorded(error.code)
        api = api_of(request.path)
        client.respond(error.status, api.error_headers(error) + extra_headers, api.error_body(error))

    def _route(self, client: ClientConnection, request: HttpRequest, extra_headers: Headers) -> None:
        path = request.path
        if request.method == b"OPTIONS" and request.header(b"access-control-request-method"):
            client.respond(200, _preflight_headers(request) + extra_headers, b"")
        elif (engine_path := ENGINE_PATHS.get(path)) is not None:
            if request.method != METHOD:
                raise errors.method_not_allowed(METHOD.decode())
            self._ask_engine(client, request, engine_path, extra_headers, grant=self.authenticate(request))
        elif (own_path := self.own_paths.get(name := b"/".join(path.split(b"/", 3)[:3]))) is not None:
            grant = self.authenticate(request)
            self._require_scope(client, request, grant, name)
            own_path(client, request, grant, extra_headers)
        elif path == _HEALTH:
            self._answer_health(client, request, extra_headers)
        else:
            raise errors.path_unknown(path.decode("utf-8", "replace"))

    def in_flight(self) -> dict[str, tuple[int, int]]:
        """(running, waiting) by public model, of every model there is."""
        models = [route.public_name for route in self.directory.snapshot.routes] if self.directory is not None else []
        waiting = Counter(exchange.public_model for exchange in self.exchanges if exchange.is_waiting)
        running = Counter(exchange.public_model for exchange in self.exchanges if not exchange.is_waiting)
        return {model: (running[model], waiting[model]) for model in models}

    # -- who asks

    def authenticate(self, request: HttpRequest) -> Grant:
        if self.directory is None:
            raise errors.not_ready("it has no snapshot from the control plane")
        scheme, _, key = request.header(b"authorization").partition(b" ")
        if scheme.lower() != b"bearer" or not key.strip():
            key = request.header(b"x-api-key")
        if not key.strip():
            raise errors.key_missing()
        grant = self.directory.find_grant(key.strip(), self._unix_time())
        if grant is None:
            raise errors.key_invalid()
        return grant

    def _require_scope(self, client: ClientConnection, request: HttpRequest, grant: Grant, path: bytes) -> None:
        """The key's own limits; most keys have none, and then nothing is parsed."""
        if not grant.may_ask(path):
            raise errors.path_not_in_scope(path.decode("utf-8", "replace"))
        if grant.networks is None or self.directory is None:
            return
        forwarded_for = request.header(b"x-forwarded-for")
        address = client_address(peer_of(client.transport), forwarded_for, self.directory.trusted_proxies)
        if not grant.may_come_from(address):
            raise errors.address_not_in_scope()

    # -- what it asks for

    def _ask_engine(
        self,
        client: ClientConnection,
        request: HttpRequest,
        path: EnginePath,
        extra_headers: Headers,
        *,
        grant: Grant,
        errand: Errand | None = None,
    ) -> None:
        noted = note_headers(request.head.headers)
        settlement = self._open_settlement(request, grant, noted)
        if errand is not None:
            self._mark(settlement, errand)
        if self.tracer is not None:
            self._begin_trace(self.tracer, settlement, noted)
        own_headers = [*path.api.answer_headers(settlement.request_id), *extra_headers]
        try:
            if self.stop_reason is not None:
                raise self.stop_reason
            if not self.journal.has_room():
                raise errors.spool_unavailable()
            if not self._connections.may_ask(client, grant.key.key_id):
                raise errors.too_many_connections()
            self._require_scope(client, request, grant, request.path)
            question, terms = self._understand(Asked(request, path, noted, grant), settlement)
        except GatewayError as error:
            self.meter.settle(settlement, NOTHING, _outcome_of(error), error.status, error.code)
            client.respond(error.status, path.api.error_headers(error) + own_headers, path.api.error_body(error))
            return
        exchange = Exchange(self, client, question=question, settlement=settlement, own_headers=own_headers)
        rules = self.limits.rules.get(settlement.tenant_id)
        if rules is None:
            exchange.begin(terms)
            return
        exchange.note_arrival()
        candidate = Candidate(client, self.meter, exchange, path, settlement, terms, own_headers, question.output_limit)
        client.owner = self.limits.apply(candidate, settlement, rules, candidate.demand()) or client.owner

    def _understand(self, asked: Asked, settlement: Settlement) -> tuple[Question, Terms]:
        """What no rule foresaw is a refusal too, so that it leaves a record as every request does."""
        try:
            return self._resolve(asked, settlement)
        except GatewayError:
            raise
        except Exception as error:
            logger.exception("request %s failed", settlement.request_id)
            raise errors.internal() from error

    def _resolve(self, asked: Asked, settlement: Settlement) -> tuple[Question, Terms]:
        """Public model → version, noted in the settlement."""
        found = asked.peek()
        settlement.is_stream = wants_stream(found)
        settlement.end_user = end_user_of(found)
        tags = read_tags(asked.noted, found)
        settlement.tags = tags | settlement.tags if settlement.tags else tags
        settlement.workflow_id = settlement.tags.get("x-workflow-id", "")[:MAX_WORKFLOW_ID]
        directory, version = self._choose_version(asked, found, settlement)
        if not asked.path.is_form:
            check_body(asked.request.body, directory.media_hosts)
        if asked.request.path == RESPONSES:
            refuse_what_is_kept(found)
        if asked.path.task not in ("", version.task):
            raise errors.wrong_task(found.model, version.task)
        caller = Caller(asked.grant, asked.noted, directory, version, asked.request.arrived_at)
        terms = read_terms(self.driver, caller, found, len(asked.request.body))
        if self.caches is not None and terms.request.prefix_blocks:
            terms.request.told_blocks = self.caches.saw(version, terms.request.prefix_blocks, asked.request)
        question = Question(
            request=asked.request,
            path=asked.path,
            request_id=settlement.request_id,
            trace_parent=self._trace_parent(asked, settlement),
            peek=found,
            public_model=found.model,
            served_name=version.served_name,
            rank=terms.request.rank,
            alternatives=terms.alternatives,
        )
        if asked.grant.tenant.keeps_prompts:
            self._keep_prompt(asked, settlement)
        return question, terms

    def _choose_version(self, asked: Asked, found: Peek, settlement: Settlement) -> tuple[Directory, Version]:
        directory = self.directory
        if directory is None or not directory.may_use(asked.grant, found.model):
            raise errors.model_not_found(found.model)
        settlement.public_model = found.model
        version = directory.choose_version(found.model, sticky_id(asked.noted, found), self.driver.serves)
        if version is None:
            raise errors.no_endpoint(None)
        settlement.version_id = version.version_id
        settlement.deployment_id = version.deployment_id
        settlement.price = price_for(version, asked.grant.tenant)
        return directory, version

    def _keep_prompt(self, asked: Asked, settlement: Settlement) -> None:
        """Not of forms, which hold sound."""
        if self.prompts is not None and not asked.path.is_form:
            self.meter.identify(settlement)
            body = asked.request.body
            self.prompts.keep(settlement.record_id, settlement.tenant_id, settlement.arrived_unix_s, body)

    def _begin_trace(self, tracer: Tracer, settlement: Settlement, noted: dict[bytes, bytes]) -> None:
        self.meter.identify(settlement)
        given = trace_parent(noted, settlement.request_id, self._randomness.getrandbits)
        is_new = given != noted.get(b"traceparent")
        tracer.begin(settlement.record_id, given, is_new=is_new, arrived_at=settlement.arrived_at)

    def _trace_parent(self, asked: Asked, settlement: Settlement) -> bytes:
        if self.tracer is not None:
            return self.tracer.parent_for_engine(settlement.record_id)
        return trace_parent(asked.noted, settlement.request_id, self._randomness.getrandbits)

    def _open_settlement(self, request: HttpRequest, grant: Grant, noted: dict[bytes, bytes]) -> Settlement:
        return Settlement(
            request_id=self._request_id(noted.get(b"x-request-id", b"")),
            arrived_at=request.arrived_at,
            tenant_id=grant.tenant.tenant_id,
            key_id=grant.key.key_id,
            user_id=grant.key.user_id,
            service_class=grant.tenant.service_class,
            path=request.path.decode(),
        )

    def _mark(self, settlement: Settlement, errand: Errand) -> None:
        self.meter.identify(settlement)
        settlement.tags = errand.tags
        settlement.record_id = errand.record_id
        settlement.is_kept = True
        self.meter.keepers[errand.record_id] = errand.keep_record

    def _request_id(self, given: bytes) -> str:
        """The client's own, if it may stand in a header and a log; else a new one."""
        if 0 < len(given) <= _MAX_REQUEST_ID and given.isascii() and given.decode().isprintable():
            return given.decode()
        return f"{self._randomness.getrandbits(128):032x}"

    # -- what we answer ourselves

    def _answer_health(self, client: ClientConnection, request: HttpRequest, headers: Headers) -> None:
        """As engines say it, without a body and to anybody: some clients ask before they begin."""
        require_method(request, "GET")
        if self.directory is None:
            raise errors.not_ready("it has no snapshot from the control plane")
        if self.stop_reason is not None:
            raise self.stop_reason
        client.respond(200, headers, b"")

    def _answer_models(self, client: ClientConnection, request: HttpRequest, grant: Grant, headers: Headers) -> None:
        require_method(request, "GET")
        body = self._models(grant, request.path[len(_MODELS) + 1 :].decode("utf-8", "replace"))
        client.respond(200, [(b"content-type", b"application/json"), *headers], body)

    def _take_outcome(self, client: ClientConnection, request: HttpRequest, grant: Grant, headers: Headers) -> None:
        """Kept in the spool, as usage is: so it is taken with the control plane down, and never without a spool."""
        if request.path != OUTCOMES:
            raise errors.path_unknown(request.path.decode("utf-8", "replace"))
        require_method(request, "POST")
        if self.stop_reason is not None:
            raise self.stop_reason
        told = read_outcome(request.body)
        self.meter.note_outcome(self._open_settlement(request, grant, note_headers(request.head.headers)), told)
        client.respond(200, [(b"content-type", b"application/json"), *headers], outcome_body(told))

    def _models(self, grant: Grant, name: str) -> bytes:
        directory = self.directory
        routes = directory.list_routes(grant) if directory is not None else []
        if not name:
            return msgspec.json.encode({"object": "list", "data": [_model_card(route) for route in routes]})
        for route in routes:
            if route.public_name == name:
                return msgspec.json.encode(_model_card(route))
        raise errors.model_not_found(name)

    def _cors_headers(self, request: HttpRequest) -> Headers:
        origin = request.header(b"origin")
        if not origin or self.directory is None or origin not in self.directory.cors_origins:
            return []
        exposed = (b"access-control-expose-headers", _EXPOSED_HEADERS)
        return [(b"access-control-allow-origin", origin), (b"vary", b"Origin"), exposed]


def _preflight_headers(request: HttpRequest) -> Headers:
    asked = request.header(b"access-control-request-headers") or b"authorization, content-type"
    return [
        (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
        (b"access-control-allow-headers", asked),
        (b"access-control-max-age", b"600"),
    ]


def require_method(request: HttpRequest, method: str) -> None:
    allowed = (b"GET", b"HEAD") if method == "GET" else (method.encode(),)
    if request.method not in allowed:
        raise errors.method_not_allowed(b", ".join(allowed).decode())


def _outcome_of(error: GatewayError) -> Outcome:
    return "refused" if error.status in (429, 503) else outcome_of(error.status)


def _model_card(route: Route) -> dict[str, str | int]:
    return {"id": route.public_name, "object": "model", "created": route.created_at, "owned_by": "tokenyard"}

"""Which path does what: the OpenAI surface of the gateway."""

import logging
import random
from collections.abc import Callable

import msgspec

from workers.contracts.snapshot import Route
from workers.contracts.usage import Outcome
from workers.gateway import errors
from workers.gateway.asking import Question
from workers.gateway.bodies import Peek, peek
from workers.gateway.directory import Directory, Grant
from workers.gateway.driver import Driver
from workers.gateway.errors import GatewayError
from workers.gateway.exchange import Exchange
from workers.gateway.heads import Headers
from workers.gateway.metering import NOTHING, Meter, Settlement
from workers.gateway.server import ClientConnection, HttpRequest

logger = logging.getLogger(__name__)

ENGINE_PATHS = frozenset((b"/v1/chat/completions", b"/v1/completions", b"/v1/embeddings"))
_MODELS = b"/v1/models"
_MAX_REQUEST_ID = 128


class Surface:
    """Answers requests itself, or hands them to an `Exchange`. `stop_reason` is set while it admits nothing."""

    def __init__(
        self,
        *,
        driver: Driver,
        meter: Meter,
        monotonic: Callable[[], float],
        unix_time: Callable[[], float],
        randomness: random.Random,
    ) -> None:
        self.driver = driver
        self.meter = meter
        self.monotonic = monotonic
        self.exchanges: set[Exchange] = set()
        self.directory: Directory | None = None
        self.stop_reason: GatewayError | None = None
        self._unix_time = unix_time
        self._randomness = randomness

    def handle(self, client: ClientConnection, request: HttpRequest) -> None:
        """Every request is answered: a GatewayError becomes the answer."""
        extra_headers = self._cors_headers(request)
        try:
            self._route(client, request, extra_headers)
        except GatewayError as error:
            client.respond(error.status, error.headers() + extra_headers, error.body())
        except Exception:
            logger.exception("request failed")
            if client.current is request and client.owner is None:
                failure = errors.internal()
                client.respond(failure.status, failure.headers() + extra_headers, failure.body())

    def _route(self, client: ClientConnection, request: HttpRequest, extra_headers: Headers) -> None:
        path = request.path
        if path in ENGINE_PATHS and request.method == b"POST":
            self._ask_engine(client, request, extra_headers)
        elif request.method == b"OPTIONS" and request.header(b"access-control-request-method"):
            client.respond(200, _preflight_headers(request) + extra_headers, b"")
        elif path in ENGINE_PATHS:
            raise errors.method_not_allowed("POST")
        elif path == _MODELS or path.startswith(_MODELS + b"/"):
            _require_method(request, "GET")
            body = self._models(self._authenticate(request), path[len(_MODELS) + 1 :].decode("utf-8", "replace"))
            client.respond(200, [(b"content-type", b"application/json"), *extra_headers], body)
        else:
            raise errors.path_unknown(path.decode("utf-8", "replace"))

    # -- who asks

    def _authenticate(self, request: HttpRequest) -> Grant:
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

    # -- what it asks for

    def _ask_engine(self, client: ClientConnection, request: HttpRequest, extra_headers: Headers) -> None:
        grant = self._authenticate(request)
        settlement = self._open_settlement(request, grant)
        try:
            self._begin_exchange(client, request, grant, settlement, extra_headers)
        except GatewayError as error:
            outcome: Outcome = "refused" if error.status in (429, 503) else "rejected"
            self.meter.settle(settlement, NOTHING, outcome, error.status, error.code)
            error_headers = [*error.headers(), (b"x-request-id", settlement.request_id.encode()), *extra_headers]
            client.respond(error.status, error_headers, error.body())

    def _begin_exchange(
        self,
        client: ClientConnection,
        request: HttpRequest,
        grant: Grant,
        settlement: Settlement,
        extra_headers: Headers,
    ) -> None:
        if self.stop_reason is not None:
            raise self.stop_reason
        found = peek(request.body)
        question = self._resolve(request, grant, settlement, found)
        exchange = Exchange(self, client, question=question, settlement=settlement, extra_headers=extra_headers)
        exchange.begin(
            version_id=settlement.version_id,
            tenant_id=grant.tenant.tenant_id,
            rank=grant.rank,
            max_queued=grant.tenant.max_queued_requests,
        )

    def _resolve(self, request: HttpRequest, grant: Grant, settlement: Settlement, found: Peek) -> Question:
        """Public model → version, noted in the settlement."""
        directory = self.directory
        settlement.is_stream = found.is_stream
        settlement.end_user = found.end_user
        if directory is None or not directory.may_use(grant, found.model):
            raise errors.model_not_found(found.model)
        settlement.public_model = found.model
        version = directory.choose_version(found.model, _sticky_id(request, found))
        if version is None:
            raise errors.no_endpoint(None)
        settlement.version_id = version.version_id
        settlement.deployment_id = version.deployment_id
        settlement.price = version.price
        return Question(
            request=request,
            request_id=settlement.request_id,
            peek=found,
            public_model=found.model,
            served_name=version.served_name,
        )

    def _open_settlement(self, request: HttpRequest, grant: Grant) -> Settlement:
        return Settlement(
            request_id=self._request_id(request),
            arrived_at=request.arrived_at,
            tenant_id=grant.tenant.tenant_id,
            key_id=grant.key.key_id,
            user_id=grant.key.user_id,
            service_class=grant.tenant.service_class,
            path=request.path.decode(),
        )

    def _request_id(self, request: HttpRequest) -> str:
        """The client's own, if it may stand in a header and a log; else a new one."""
        given = request.header(b"x-request-id")
        if 0 < len(given) <= _MAX_REQUEST_ID and given.isascii() and given.decode().isprintable():
            return given.decode()
        return f"{self._randomness.getrandbits(128):032x}"

    # -- what we answer ourselves

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
        exposed = (b"access-control-expose-headers", b"x-request-id, retry-after")
        return [(b"access-control-allow-origin", origin), (b"vary", b"Origin"), exposed]


def _preflight_headers(request: HttpRequest) -> Headers:
    asked = request.header(b"access-control-request-headers") or b"authorization, content-type"
    return [
        (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
        (b"access-control-allow-headers", asked),
        (b"access-control-max-age", b"600"),
    ]


def _require_method(request: HttpRequest, method: str) -> None:
    allowed = (b"GET", b"HEAD") if method == "GET" else (method.encode(),)
    if request.method not in allowed:
        raise errors.method_not_allowed(b", ".join(allowed).decode())


def _sticky_id(request: HttpRequest, found: Peek) -> str:
    """What must stay on one version: a workflow or session before a user; nothing without a name."""
    for name in (b"x-workflow-id", b"x-session-id"):
        value = request.header(name)
        if value:
            return value.decode("utf-8", "replace")
    for given in (found.prompt_cache_key, found.safety_identifier, found.user):
        if given and isinstance(given, str):
            return given
    return ""


def _model_card(route: Route) -> dict[str, str | int]:
    return {"id": route.public_name, "object": "model", "created": route.created_at, "owned_by": "tokenyard"}

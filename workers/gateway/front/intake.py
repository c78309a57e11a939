"""From a request for an engine, of somebody known, to its exchange; or to its refusal, which leaves a record too."""

import logging
import random
from collections.abc import Callable

from workers.contracts.pricing import price_for
from workers.contracts.settlement import NOTHING, Settlement
from workers.contracts.snapshot import Version
from workers.contracts.usage import Outcome
from workers.gateway import errors
from workers.gateway.attempts.asking import Question
from workers.gateway.driving.terms import Caller, Terms, read_terms
from workers.gateway.errors import GatewayError
from workers.gateway.exchanges.applying import Candidate
from workers.gateway.exchanges.exchange import Exchange
from workers.gateway.exchanges.facilities import Facilities
from workers.gateway.front.introduction import Introduction
from workers.gateway.front.marks import Errand, await_delivery, begin_trace, mark_errand, trace_parent_of
from workers.gateway.front.neighbours import ElsewhereError, MisdirectedError, Neighbours
from workers.gateway.front.nodes import choose_among_nodes
from workers.gateway.front.rerouting import send_back, send_on
from workers.gateway.front.scopes import require_scope
from workers.gateway.front.stored import RESPONSES, refuse_what_is_kept
from workers.gateway.http.connections import Connections
from workers.gateway.http.heads import Headers
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.server import ClientConnection
from workers.gateway.kv_events.reader import CacheReader
from workers.gateway.limits.admission import Limits
from workers.gateway.payload.bodies import NO_TEXT, Peek, peek
from workers.gateway.payload.body_limits import check_body
from workers.gateway.payload.forms import peek_form
from workers.gateway.payload.labels import COUNTED, FORWARDED, HAS_OTHERS, note_who, sticky_id
from workers.gateway.records.metering import outcome_of
from workers.gateway.records.prompts import PromptKeeper
from workers.gateway.tracing.tracer import Tracer
from workers.scheduling.interface import Request

logger = logging.getLogger(__name__)


class Intake:
    """`stop_reason` is set while nothing is admitted. `introduce` says anew who asks, by what is known now.

    `count_unrecorded` is told the code of a refusal that leaves no record.
    """

    def __init__(
        self,
        facilities: Facilities,
        *,
        limits: Limits,
        connections: Connections,
        randomness: random.Random,
        introduce: Callable[[HttpRequest], Introduction],
        count_unrecorded: Callable[[str], None],
    ) -> None:
        self.facilities = facilities
        self.introduce = introduce
        self.limits = limits
        self.stop_reason: GatewayError | None = None
        self.tracer: Tracer | None = None
        self.prompts: PromptKeeper | None = None
        self.caches: CacheReader | None = None
        self.neighbours: Neighbours | None = None
        self._connections = connections
        self._count_unrecorded = count_unrecorded
        self._random_bits = randomness.getrandbits

    def take(
        self,
        client: ClientConnection,
        request: HttpRequest,
        introduction: Introduction,
        errand: Errand | None = None,
    ) -> None:
        settlement = self.open_settlement(request, introduction)
        if errand is not None:
            mark_errand(self.facilities.meter, settlement, errand)
        if introduction.is_forwarded:
            settlement.was_let_in = COUNTED in introduction.noted
            await_delivery(self.facilities, client, settlement, introduction)
        if self.tracer is not None:
            begin_trace(self.tracer, self.facilities.meter, settlement, introduction.noted, self._random_bits)
        self._take(client, request, introduction, settlement)

    def take_back(
        self,
        client: ClientConnection,
        request: HttpRequest,
        former: Introduction,
        settlement: Settlement,
        error: GatewayError | None,
    ) -> None:
        """What went to other nodes in vain: they sent it back, or none could be asked for the reason of `error`."""
        try:
            introduction = self.introduce(request)
        except GatewayError as refusal:
            self._refuse(client, former, settlement, refusal)
            return
        is_news = introduction.directory is not former.directory
        introduction.times_sent_back = 1 if is_news else former.times_sent_back + 1
        if self.tracer is not None:
            begin_trace(self.tracer, self.facilities.meter, settlement, introduction.noted, self._random_bits)
        self._take(client, request, introduction, settlement, unreachable=error)

    def _take(
        self,
        client: ClientConnection,
        request: HttpRequest,
        introduction: Introduction,
        settlement: Settlement,
        unreachable: GatewayError | None = None,
    ) -> None:
        own_headers = [*introduction.path.api.answer_headers(settlement.request_id), *introduction.extra_headers]
        try:
            self._require_admission(client, request, introduction)
            question, terms = self.understand(request, introduction, settlement)
        except GatewayError as error:
            self._refuse(client, introduction, settlement, error)
            return
        except ElsewhereError as elsewhere:
            if unreachable is not None:
                self._refuse(client, introduction, settlement, unreachable)
            else:
                send_on(self, client, request, introduction, settlement, elsewhere=elsewhere)
            return
        except MisdirectedError:
            send_back(self, client, introduction, settlement)
            return
        if introduction.grant.tenant.keeps_prompts and self.prompts is not None:
            self._keep_prompt(self.prompts, question, settlement)
        exchange = Exchange(self.facilities, client, question, settlement, own_headers)
        self._begin(client, exchange, question, terms, own_headers)

    def _refuse(
        self, client: ClientConnection, introduction: Introduction, settlement: Settlement, error: GatewayError
    ) -> None:
        api = introduction.path.api
        own_headers = [*api.answer_headers(settlement.request_id), *introduction.extra_headers]
        if error.code == errors.SPOOL_UNAVAILABLE and not settlement.is_kept:
            self.forget(settlement)
            self._count_unrecorded(error.code)
        else:
            self.turn_away(settlement, introduction, error)
        client.respond(error.status, api.error_headers(error) + own_headers, api.error_body(error))

    def forget(self, settlement: Settlement) -> None:
        """It leaves no record here. Where a disk takes none, those of refusals would fill the memory."""
        self.facilities.meter.forget(settlement)
        if self.tracer is not None:
            self.tracer.forget(settlement.record_id)

    def turn_away(self, settlement: Settlement, introduction: Introduction, error: GatewayError) -> None:
        outcome = _outcome_of(error)
        request = Request(
            request_id=0,
            version_id=settlement.version_id,
            tenant_id=settlement.tenant_id,
            rank=introduction.grant.rank,
            max_queued_of_tenant=0,
            arrived_at=settlement.arrived_at,
        )
        facilities = self.facilities
        facilities.driver.trails.turned_away(settlement, request, outcome, error.code, facilities.monotonic())
        facilities.meter.settle(settlement, NOTHING, outcome, error.status, error.code)

    def new_id(self) -> str:
        return self._random_bits(128).to_bytes(16, "big").hex()

    def open_settlement(self, request: HttpRequest, introduction: Introduction) -> Settlement:
        return Settlement(
            request_id=introduction.given_id or self.new_id(),
            arrived_at=request.arrived_at,
            tenant_id=introduction.tenant_id,
            key_id=introduction.key_id,
            user_id=introduction.user_id,
            service_class=introduction.service_class,
            path=introduction.path_text,
        )

    def _begin(
        self,
        client: ClientConnection,
        exchange: Exchange,
        question: Question,
        terms: Terms,
        own_headers: Headers,
    ) -> None:
        """At once, or when its limits have room."""
        settlement = exchange.settlement
        rules = self.limits.rules.get(settlement.tenant_id)
        if rules is None:
            exchange.begin(terms)
            return
        exchange.note_arrival()
        candidate = Candidate(
            client,
            self.facilities,
            exchange,
            question.path,
            settlement,
            terms,
            own_headers,
            question.output_limit,
        )
        client.owner = self.limits.apply(candidate, settlement, rules, candidate.demand()) or client.owner

    # -- whether it may

    def _require_admission(self, client: ClientConnection, request: HttpRequest, introduction: Introduction) -> None:
        if self.stop_reason is not None:
            if introduction.noted.get(FORWARDED) == HAS_OTHERS:
                raise MisdirectedError
            raise self.stop_reason
        if not self.facilities.journal.has_room():
            raise errors.spool_unavailable()
        if not self._connections.may_ask(client, introduction.key_id):
            raise errors.too_many_connections()
        if introduction.is_scoped:
            require_scope(client, request, introduction.grant, introduction.directory, request.path)

    # -- what it asks for

    def understand(
        self, request: HttpRequest, introduction: Introduction, settlement: Settlement
    ) -> tuple[Question, Terms]:
        """What no rule foresaw is a refusal too, so that it leaves a record as every request does."""
        try:
            return self._resolve(request, introduction, settlement)
        except (GatewayError, ElsewhereError, MisdirectedError):
            raise
        except Exception as error:
            logger.exception("request failed", extra={"request_id": settlement.request_id})
            raise errors.internal() from error

    def _resolve(
        self, request: HttpRequest, introduction: Introduction, settlement: Settlement
    ) -> tuple[Question, Terms]:
        """Public model → version, noted in the settlement."""
        path, noted, directory = introduction.path, introduction.noted, introduction.directory
        found = peek_form(request.body, noted.get(b"content-type", b"")) if path.is_form else peek(request.body)
        if path.has_conversations:
            found.prompt, found.messages = found.messages, NO_TEXT  # as so many prompts
        model: str = found.model
        note_who(settlement, noted, found)
        version = self.choose_version(introduction, found, model, settlement)
        settlement.version_id = version.version_id
        settlement.deployment_id = version.deployment_id
        settlement.price = price_for(version, introduction.grant.tenant)
        if not path.is_form:
            check_body(request.body, directory.media_hosts)
        if request.path == RESPONSES:
            refuse_what_is_kept(found)
        if path.task not in ("", version.task):
            raise errors.wrong_task(model, version.task)
        caller = Caller(introduction.grant, noted, directory, version, request.arrived_at)
        terms = read_terms(self.facilities.driver, caller, found, len(request.body), path.limit_fields)
        if self.caches is not None and terms.request.prefix_blocks:
            terms.request.told_blocks = self.caches.saw(version, terms.request.prefix_blocks, request)
        question = Question(
            request,
            path,
            settlement.request_id,
            trace_parent_of(self.tracer, introduction, settlement, self._random_bits),
            found,
            public_model=model,
            served_name=version.served_name,
            expected_input_tokens=0 if path.is_form else terms.prompt.tokens,
            output_limit=terms.output_limit,
            rank=terms.request.rank,
            alternatives=terms.alternatives,
        )
        return question, terms

    def _keep_prompt(self, prompts: PromptKeeper, question: Question, settlement: Settlement) -> None:
        """Not of forms, which hold sound."""
        if not question.path.is_form:
            self.facilities.meter.identify(settlement)
            body = question.request.body
            prompts.keep(settlement.record_id, settlement.tenant_id, settlement.arrived_unix_s, body)

    def choose_version(self, introduction: Introduction, found: Peek, model: str, settlement: Settlement) -> Version:
        directory = introduction.directory
        if not directory.may_use(introduction.grant, model):
            raise errors.model_not_found(model)
        settlement.public_model = model
        sticky = sticky_id(introduction.noted, found) if directory.is_split(model) else ""
        is_here = self.facilities.driver.serves
        if not directory.has_other_nodes or self.neighbours is None or settlement.is_kept:
            version = directory.choose_version(model, sticky, is_here)
        else:
            version = choose_among_nodes(self.neighbours, introduction, model, sticky, is_here)
        if version is None:
            raise errors.no_endpoint(None)
        return version


def _outcome_of(error: GatewayError) -> Outcome:
    return "refused" if error.status in (429, 503) else outcome_of(error.status)

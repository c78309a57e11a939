"""Ways of a request whose version has no engine here (any more): another version, another node, or back to who asked.

One that is answered elsewhere is recorded there, and leaves nothing here.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from workers.contracts.settlement import Settlement
from workers.gateway import errors
from workers.gateway.errors import GatewayError
from workers.gateway.exchanges.exchange import Exchange
from workers.gateway.front.forwarding import begin_elsewhere
from workers.gateway.front.introduction import Introduction
from workers.gateway.front.neighbours import ElsewhereError, MisdirectedError
from workers.gateway.front.proofs import prove
from workers.gateway.http.heads import AnswerHead, Headers
from workers.gateway.http.numbers import MAX_DIGITS
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.server import ClientConnection
from workers.gateway.payload.labels import COUNTED, DEADLINE, FORWARDED, HAS_OTHERS, PROOF, RECORD, REQUEST_ID

if TYPE_CHECKING:
    from workers.gateway.front.intake import Intake


def send_on(
    intake: "Intake",
    client: ClientConnection,
    request: HttpRequest,
    introduction: Introduction,
    settlement: Settlement,
    *,
    elsewhere: ElsewhereError,
) -> None:
    """To the nodes that have an engine for it. If none has any more it is taken anew, by what is known then."""
    if intake.tracer is not None:
        intake.tracer.forget(settlement.record_id)
    intake.facilities.meter.identify(settlement)

    def take_back(error: GatewayError | None) -> None:
        intake.take_back(client, request, introduction, settlement, error)

    def note_refusal(head: AnswerHead) -> None:
        settlement.was_let_in |= COUNTED in head.shown_names

    begin_elsewhere(
        client,
        request,
        introduction.extra_headers,
        elsewhere,
        api=introduction.path.api,
        say=lambda: own_words(intake.facilities.monotonic, introduction, settlement),
        lost=lambda error: intake.turn_away(settlement, introduction, error),
        back=take_back,
        sent_back=note_refusal,
        is_first_round=not introduction.times_sent_back,
    )


def own_words(monotonic: Callable[[], float], introduction: Introduction, settlement: Settlement) -> Headers:
    """It may have waited, here or where it was sent back: its deadline is less far, and a proof is of its moment.

    Whoever answers writes the record that it would have here, so that it is one whichever of them writes it.
    """
    waited_s = monotonic() - settlement.arrived_at
    secret, given_id = introduction.directory.snapshot.peer_secret, settlement.request_id.encode()
    proof = prove(secret, FORWARDED, given_id, settlement.arrived_unix_s + waited_s)
    record = b"%b %r" % (settlement.record_id.encode(), settlement.arrived_unix_s)
    said = [(REQUEST_ID, given_id), (PROOF, proof), (RECORD, record), *_counted(settlement)]
    deadline = introduction.noted.get(DEADLINE, b"").strip()
    if deadline.isdigit() and len(deadline) <= MAX_DIGITS and int(deadline):
        said.append((DEADLINE, b"%d" % max(1, int(deadline) - int(waited_s * 1000))))
    return said


def send_back(intake: "Intake", client: ClientConnection, introduction: Introduction, settlement: Settlement) -> None:
    """To the gateway that asked, which asks the next."""
    intake.forget(settlement)
    api, error = introduction.path.api, errors.misdirected()
    client.respond(error.status, api.error_headers(error) + _counted(settlement), api.error_body(error))


def _counted(settlement: Settlement) -> Headers:
    """Who asks for it next must not count it again among a minute's requests."""
    return [(COUNTED, b"1")] if settlement.was_let_in else []


def reroute(intake: "Intake", exchange: Exchange, introduction: Introduction) -> None:
    """It waits for a version that is not here. Where there is no other way it waits on: one may be starting."""
    question, settlement = exchange.question, exchange.settlement
    waits_for = settlement.version_id, settlement.deployment_id, settlement.price
    try:
        version = intake.choose_version(introduction, question.peek, question.public_model, settlement)
        if intake.facilities.driver.serves(version.version_id):
            exchange.begin_again(*intake.understand(question.request, introduction, settlement))
    except ElsewhereError as elsewhere:
        if not settlement.attempts:  # what was wasted on it here has no record but its own
            client = exchange.step_aside()
            send_on(intake, client, question.request, introduction, settlement, elsewhere=elsewhere)
    except MisdirectedError:
        if not settlement.attempts:
            send_back(intake, exchange.step_aside(), introduction, settlement)
    except GatewayError:
        settlement.version_id, settlement.deployment_id, settlement.price = waits_for


def leave_to_others(intake: "Intake", exchange: Exchange) -> None:
    """Of one that waits here while this gateway leaves: who asked for it may ask elsewhere."""
    introduction = exchange.question.request.head.introduction
    is_sent_back = exchange.may_go_elsewhere and not exchange.settlement.attempts
    if introduction is not None and introduction.noted.get(FORWARDED) == HAS_OTHERS and is_sent_back:
        send_back(intake, exchange.step_aside(), introduction, exchange.settlement)
    else:
        exchange.give_up(errors.shutting_down())

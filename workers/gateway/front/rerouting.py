"""Ways of a request whose version has no engine here (any more): another version, another node, or back to who asked.

One that is answered elsewhere is recorded there, and leaves nothing here.
"""

from typing import TYPE_CHECKING

from workers.contracts.settlement import Settlement
from workers.gateway import errors
from workers.gateway.errors import GatewayError
from workers.gateway.exchanges.exchange import Exchange
from workers.gateway.front.forwarding import ElsewhereError, MisdirectedError, begin_elsewhere
from workers.gateway.front.introduction import Introduction
from workers.gateway.front.proofs import prove
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.server import ClientConnection
from workers.gateway.payload.labels import FORWARDED

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
    """To the nodes that have an engine for it."""
    facilities = intake.facilities
    if intake.tracer is not None:
        intake.tracer.forget(settlement.record_id)
    facilities.meter.identify(settlement)
    secret, given_id = introduction.directory.snapshot.peer_secret, settlement.request_id
    said_at = settlement.arrived_unix_s + facilities.monotonic() - settlement.arrived_at
    begin_elsewhere(
        client,
        request,
        introduction.extra_headers,
        elsewhere,
        api=introduction.path.api,
        request_id=given_id,
        proof=prove(secret, FORWARDED, given_id.encode(), said_at),
        lost=lambda error: intake.turn_away(settlement, introduction, error),
    )


def send_back(intake: "Intake", client: ClientConnection, introduction: Introduction, settlement: Settlement) -> None:
    """To the gateway that asked, which asks the next."""
    intake.facilities.meter.forget(settlement)
    if intake.tracer is not None:
        intake.tracer.forget(settlement.record_id)
    api, error = introduction.path.api, errors.misdirected()
    client.respond(error.status, api.error_headers(error), api.error_body(error))


def reroute(intake: "Intake", exchange: Exchange, introduction: Introduction) -> None:
    """It waits for a version that is not here. Where there is no other way it waits on: one may be starting."""
    question, settlement = exchange.question, exchange.settlement
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
        return

"""A request that is understood and has not begun: it goes in, is turned away, or its client leaves."""

from msgspec import Struct

from workers.contracts.settlement import NOTHING, Settlement
from workers.contracts.usage import Outcome
from workers.gateway.apis.paths import EnginePath
from workers.gateway.driving.terms import Terms
from workers.gateway.errors import GatewayError
from workers.gateway.exchanges.exchange import Exchange
from workers.gateway.exchanges.facilities import Facilities
from workers.gateway.http.heads import Headers
from workers.gateway.http.server import ClientConnection
from workers.gateway.limits.rulebook import Demand

# Where the client sets no limit: so many times what answers have been like.
OUTPUT_MARGIN = 2
_CLIENT_LEFT = 499


class Candidate(Struct, eq=False):
    client: ClientConnection
    facilities: Facilities
    exchange: Exchange
    path: EnginePath
    settlement: Settlement
    terms: Terms
    own_headers: Headers
    output_limit: int | None

    def demand(self) -> Demand:
        """What it may use at most, as far as one can say."""
        settlement, request = self.settlement, self.terms.request
        input_tokens, output_tokens = request.prompt_tokens, round(request.predicted_output_tokens * OUTPUT_MARGIN)
        if self.output_limit is not None:
            output_tokens = self.output_limit * self.terms.choices
        if self.path.task == "embed":
            output_tokens = 0
        if not self.path.is_metered:
            input_tokens = output_tokens = 0
        return Demand(
            key_id=settlement.key_id,
            member_id=settlement.user_id,
            end_user=settlement.end_user,
            model=settlement.public_model,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            is_output_known=self.output_limit is not None or self.path.task == "embed",
            price=settlement.price,
            is_counted=settlement.was_let_in,
        )

    def go_in(self, headers: Headers) -> None:
        self.own_headers += headers
        self.settlement.was_let_in = True
        self.exchange.begin(self.terms)
        if not self.facilities.driver.serves(self.terms.version_id):
            self.exchange.stranded()  # since it was understood

    def turn_away(self, error: GatewayError) -> None:
        api = self.path.api
        self._settle("refused", error.status, error.code)
        self.client.respond(error.status, api.error_headers(error) + self.own_headers, api.error_body(error))

    def give_up(self) -> None:
        self._settle("client_left", _CLIENT_LEFT)

    def _settle(self, outcome: Outcome, status: int, code: str = "") -> None:
        facilities, request = self.facilities, self.terms.request
        what = "withdrawn" if outcome == "client_left" else outcome
        facilities.driver.trails.turned_away(self.settlement, request, what, code, facilities.monotonic())
        facilities.meter.settle(self.settlement, NOTHING, outcome, status, code)

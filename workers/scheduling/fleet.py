"""The endpoints of one version: which are open, and which suits a request best."""

from itertools import islice
from math import ceil, inf

from workers.scheduling.appraisal import Appraiser
from workers.scheduling.decision import Verdict
from workers.scheduling.endpoint import EndpointModel
from workers.scheduling.failures.silence import overdue_s
from workers.scheduling.holding import HeldSlots
from workers.scheduling.kv_limits import KVLimits
from workers.scheduling.latency.kin import Kinship
from workers.scheduling.openings import Openings, why_unusable
from workers.scheduling.pacing import pause_for_pace
from workers.scheduling.planning.backlog import Backlog
from workers.scheduling.planning.price import PRICE_EVERY_S, BidPrices
from workers.scheduling.prefix.index import PrefixIndex
from workers.scheduling.prefix.lookup import PrefixLookup
from workers.scheduling.standstill import Standstill
from workers.scheduling.ticket import Ticket
from workers.scheduling.tuning import Tuning

MAX_SCANNED = 4
BACKLOG_AGE_S = 0.005
INDEX_SHARE = 0.9
HOT_MARGIN = 10
ROUNDING_S = 1e-9
TIE_S = 1e-3
"""How much a fully used endpoint counts as slower than an unused one, where the model sees no difference."""


class Fleet:
    def __init__(self, tuning: Tuning, appraiser: Appraiser, prices: BidPrices) -> None:
        self._affinity, self._hot_factor, self._pace_margin = tuning.affinity, tuning.hot_factor, tuning.pace_margin
        self._appraiser = appraiser
        self._kv_limits = KVLimits(tuning, prices)
        self.endpoints: dict[int, EndpointModel] = {}
        self.index = PrefixIndex()
        self.lookup = PrefixLookup(self.index, self.endpoints)
        self._openings = Openings(tuning.gate_share)
        self._open = self._openings.open
        self._running = 0
        self._backlog_at = -inf
        self._backlog: Backlog | None = None
        self._looked: list[EndpointModel] = []
        self.first_token_at = 0.0
        self.standstill = Standstill()
        self.held = HeldSlots()
        self._prefill_kin, self._decode_kin = Kinship(), Kinship()
        self.changes = 0

    def add(self, endpoint: EndpointModel, now: float) -> None:
        self.endpoints[endpoint.number] = endpoint
        self.meet_kin(endpoint)
        self.touch(endpoint, now)

    def remove(self, endpoint: EndpointModel) -> None:
        self.changes += 1
        del self.endpoints[endpoint.number]
        self._running -= len(endpoint.running)
        self._openings.remove(endpoint)
        self.index.forget_endpoint(endpoint.number)

    def free_number(self) -> int:
        """The least that no endpoint has: numbers are positions in bit masks."""
        number = 0
        while number in self.endpoints:
            number += 1
        return number

    def any_usable(self, now: float) -> bool:
        return any(endpoint.is_usable(now) for endpoint in self.endpoints.values())

    def capacity(self) -> int:
        """How many may be sent to; 1 at least, as some will."""
        return max(1, len(self._openings.usable))

    def is_speed_known(self) -> bool:
        """Of all that may be sent to: one that is not can show nothing."""
        shown = self._openings.usable or self.endpoints
        return bool(shown) and all(endpoint.prefill_speed.is_learned for endpoint in shown.values())

    def meet_kin(self, endpoint: EndpointModel) -> None:
        """One that comes, or of whose costs less is known than was: it is taken to be like the others."""
        if not endpoint.spec.is_speed_known:
            endpoint.lean_on(self._prefill_kin.factor, self._decode_kin.factor)

    def share_speed(self) -> None:
        """After one of those that nothing was known of has shown more of its speed."""
        kin = [endpoint for endpoint in self.endpoints.values() if not endpoint.spec.is_speed_known]
        has_changed = self._prefill_kin.learned([endpoint.prefill_speed for endpoint in kin])
        if self._decode_kin.learned([endpoint.decode_speed for endpoint in kin]) or has_changed:
            for endpoint in kin:
                self.meet_kin(endpoint)

    def backlog(self, now: float) -> Backlog:
        """Of those that may be sent to; at most BACKLOG_AGE_S old, unless something was sent since."""
        if now - self._backlog_at > BACKLOG_AGE_S or self._backlog is None:
            self._backlog_at = now
            self._backlog = Backlog(self._openings.usable, now)
        return self._backlog

    # open endpoints

    def touch(self, endpoint: EndpointModel, now: float) -> None:
        """After anything that may open or close it."""
        self.changes += 1
        self._openings.place(endpoint, now)

    def reported(self, endpoint: EndpointModel, now: float) -> None:
        """After a report: it changes nothing but the KV cache that is in use; time may have opened the endpoint."""
        if endpoint.opens_at <= now and not endpoint.is_open:
            self._openings.place(endpoint, now)

    def eased(self, endpoint: EndpointModel, now: float) -> None:
        """After what can only open it: where nothing is left to prefill, one that was open is so still."""
        self.changes += 1
        if endpoint.prefilling or not endpoint.is_open:
            self._openings.place(endpoint, now)

    def open_due(self, now: float) -> bool:
        """Opens what is due; whether any endpoint is open."""
        while (endpoint := self._openings.next_due(self.endpoints, now)) is not None:
            self.touch(endpoint, now)
        return bool(self._open)

    def next_opening_at(self) -> float:
        return self._openings.next_at()

    def idle(self) -> list[EndpointModel]:
        """Open ones with nothing to prefill."""
        return [endpoint for endpoint in self._open.values() if not endpoint.prefilling]

    @property
    def runs_nothing(self) -> bool:
        return not self._running

    def unused(self) -> list[EndpointModel]:
        """Open ones with nothing to do."""
        return [endpoint for endpoint in self._open.values() if not endpoint.running]

    # the best endpoint

    def choose(self, ticket: Ticket, now: float) -> EndpointModel | None:
        """Least predicted first token plus detour; None when none fits, or the best is worth waiting for.

        `lookup` has set what is cached of it; `first_token_at` is then when the one chosen would answer.
        """
        looked: list[EndpointModel] = []
        self._looked = looked
        best: EndpointModel | None = None
        best_score, best_prefill_s, best_hit_tokens = inf, 0.0, 0
        limits = (self._kv_limits.ceiling(ticket, now), self._kv_limits.headroom())
        hits, prompt_tokens = ticket.hits, ticket.prompt_tokens
        for endpoint in self._candidates(ticket):
            hit_tokens = self.lookup.tokens_at(ticket, endpoint.number) if hits else 0
            if 0 < hit_tokens <= best_hit_tokens and endpoint.number not in hits and best is not None and best.is_open:
                continue  # one with the same prefix that runs less can take it
            looked.append(endpoint)
            if endpoint.running or endpoint.opens_at > now:
                reason = self._reason_against(ticket, endpoint, hit_tokens, limits, now)
                if reason:
                    endpoint.look.reason = reason
                    continue
            prefill_s = endpoint.prefill_s(prompt_tokens, hit_tokens)
            score = self._score(ticket, endpoint, prefill_s, now)
            endpoint.look.fits(score, prefill_s, hit_tokens)
            if score < best_score:
                best, best_score, best_prefill_s, best_hit_tokens = endpoint, score, prefill_s, hit_tokens
        if best is None or not best.is_open:
            self._stands_still(ticket, best_score, now)
            return None
        # Tokens come at the ends of steps, and the next may have begun: a step later than the prompt alone would take.
        self.first_token_at = self._starts_at(best, now) + best_prefill_s + best.full_s
        return best

    def considered(self) -> list[Verdict]:
        """By the last choice."""
        return [endpoint.look.verdict(endpoint.endpoint_id) for endpoint in self._looked]

    def consider_only(self, endpoint: EndpointModel, prefill_s: float) -> None:
        """In place of a choice."""
        self._looked = [endpoint]
        endpoint.look.fits(0.0, prefill_s, 0)

    def _stands_still(self, ticket: Ticket, best_score: float, now: float) -> None:
        """Nothing is open for the ticket: notes when that could be otherwise without any event.

        What it waits for comes nearer as time passes, so that an open endpoint never overtakes it.
        """
        found = self.standstill
        patient_until = self._kv_limits.patient_until(ticket)
        if patient_until > now:
            found.ends_at(patient_until - ROUNDING_S)
        alike = 0
        for endpoint in self._looked:
            look = endpoint.look
            if not look.reason and look.score < best_score + ROUNDING_S:
                alike += 1
        if alike > 1 or len(self._open) > MAX_SCANNED:
            found.ends_at(now)

    def sent(self, ticket: Ticket, endpoint: EndpointModel, now: float) -> None:
        """`choose` has just chosen the endpoint for the ticket."""
        request = ticket.request
        hit_tokens = ticket.hit_tokens = self.lookup.tokens_at(ticket, endpoint.number)
        ticket.kv_tokens = self._appraiser.kv_tokens(ticket, endpoint, hit_tokens)
        ticket.prefill_s = endpoint.prefill_s(ticket.prompt_tokens, hit_tokens)
        endpoint.sent(ticket, ticket.prefill_s, now)
        self._appraiser.reuse.learn(request.tenant_id, hit_tokens, request.prompt_tokens)
        self._running += 1
        self._backlog = None
        pause_for_pace(endpoint, ticket.prompt_tokens - hit_tokens, self._pace_margin)
        if request.prefix_blocks:
            max_blocks = int(INDEX_SHARE * endpoint.kv_capacity) // request.block_tokens
            self.index.record(request.prefix_blocks, endpoint.number, max_blocks, request.told_blocks)
        self._open.pop(endpoint.number, None)  # of equals the one goes first that was sent to the longest ago
        self.touch(endpoint, now)

    def ended(self, ticket: Ticket, endpoint: EndpointModel) -> None:
        endpoint.ended(ticket)
        if self.endpoints.get(endpoint.number) is endpoint:
            self._running -= 1

    def _candidates(self, ticket: Ticket) -> list[EndpointModel]:
        """Those that have the prefix, and some open ones, another stretch of them each time."""
        scanned = self._open
        if len(scanned) > MAX_SCANNED:
            scanned = {number: self._open.pop(number) for number in list(islice(self._open, MAX_SCANNED))}
            self._open.update(scanned)
        hits = ticket.hits
        found = [self.endpoints[number] for number in hits] if hits else list(scanned.values())
        if hits:
            for number, endpoint in scanned.items():
                if number not in hits:
                    found.append(endpoint)
        if ticket.failed_on is not None and len(found) > 1:
            return [endpoint for endpoint in found if endpoint is not ticket.failed_on]
        return found

    def _reason_against(
        self, ticket: Ticket, endpoint: EndpointModel, hit_tokens: int, kv_limits: tuple[float, float], now: float
    ) -> str:
        if not endpoint.is_usable(now):
            return why_unusable(endpoint, now)
        reason = self._why_shut(ticket, endpoint, now)
        if reason:
            return reason
        if 2 * hit_tokens > ticket.prompt_tokens and self._is_hot(ticket, endpoint, hit_tokens):
            return "hot"
        if endpoint.running and endpoint.is_open:
            ceiling, headroom = kv_limits
            need = headroom * self._appraiser.kv_tokens(ticket, endpoint, hit_tokens)
            if endpoint.kv_used(now) + need > ceiling * endpoint.kv_capacity:
                self.standstill.lacks_room(endpoint, ceiling * endpoint.kv_capacity - need)
                return "KV cache"
        return ""

    def _score(self, ticket: Ticket, endpoint: EndpointModel, prefill_s: float, now: float) -> float:
        score = self._starts_at(endpoint, now) - now + prefill_s + TIE_S * len(endpoint.running) / endpoint.max_running
        detour_s = prefill_s - ticket.prefill_s
        return score + self._affinity * detour_s if detour_s > 0 else score

    def _starts_at(self, endpoint: EndpointModel, now: float) -> float:
        """When a prompt that is sent there now would begin."""
        starts_at = max(now + overdue_s(endpoint, self.endpoints.values(), now), endpoint.prefill_until)
        return max(starts_at, endpoint.paused_until)

    def _why_shut(self, ticket: Ticket, endpoint: EndpointModel, now: float) -> str:
        """Looked at again after a while: of what it depends on not all is an event."""
        if not endpoint.has_slot():
            return "no slot"
        if endpoint.running and endpoint.watchdog.is_quiet():
            self.standstill.ends_at(now + PRICE_EVERY_S)
            return "silent"
        if ticket.request.rank and self.held.bars(ticket, endpoint, self._openings.usable, self.changes, now):
            self.standstill.ends_at(now + PRICE_EVERY_S)
            return "held back"
        return ""

    def _is_hot(self, ticket: Ticket, endpoint: EndpointModel, hit_tokens: int) -> bool:
        """Whether the endpoint would run too many beside the mean of those that may be sent anything.

        Of requests that share what this one would find cached, that is more than an even spread of everything; of all
        together HOT_MARGIN more, so that conversations need not leave their endpoint while little runs.
        """
        running = self._running + 1
        for unusable in self._openings.unusable.values():
            running -= len(unusable.running)
        mean = running / self.capacity()
        many, after = self._hot_factor * mean, len(endpoint.running) + 1
        if after <= max(ceil(mean), many):
            return False
        request = ticket.request
        if after > many + HOT_MARGIN:
            return True
        shared = hit_tokens // request.block_tokens or len(request.prefix_blocks)
        return endpoint.pins.holders_of(request.prefix_blocks, shared) + 1 > max(ceil(mean), many)

"""Gateways that crash and come back between any two steps, and messages that are lost, doubled or late: N stays N."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.limits_world import World
from tests.support.limits_world import rule as limit
from workers.gateway.limits.ledger import TTL_S

pytestmark = pytest.mark.unit

GATEWAYS = ("g1", "g2", "g3")
SLOTS, REQUESTS, TOKENS = 3, 6, 100
RESERVED_TOKENS = 20
CALMS_DOWN_S = TTL_S + 0.2


class SharedLimits(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.world = World(
            [
                limit("concurrent_requests", SLOTS),
                limit("requests_per_minute", REQUESTS),
                limit("tokens_per_day", TOKENS),
            ],
            gateways=len(GATEWAYS),
            degraded="refuse",
        )
        self.waiting = []
        self.running = []
        self.admitted_at = []
        self.tokens = 0
        self.late = []
        self.lost_tokens = 0
        self.boots = dict(zip(GATEWAYS, GATEWAYS, strict=True))

    def live(self, place):
        return self.boots[GATEWAYS[place]]

    @rule(place=st.integers(0, 2))
    def request_arrives(self, place):
        self.waiting.append((self.live(place), self.world.ask(self.live(place), output_tokens=RESERVED_TOKENS)))
        self.notice()

    @rule(place=st.integers(0, 2), answer_arrives=st.booleans())
    def gateway_talks(self, place, answer_arrives):
        """Without an answer the gateway does not know whether the authority heard."""
        gateway, world = self.live(place), self.world
        asks, sent_at = world.send(gateway), world.now
        reply = world.deliver(gateway, asks)
        if answer_arrives:
            world.ledgers[gateway].answered(asks, reply, sent_at=sent_at, now=world.now)
        else:
            world.ledgers[gateway].failed(asks, world.now)
        self.late.append((gateway, asks))
        self.notice()

    @rule(places=st.lists(st.integers(0, 2), min_size=1, max_size=8))
    def requests_arrive_and_everybody_talks(self, places):
        for place in places:
            self.request_arrives(place)
        for gateway in GATEWAYS:
            self.world.exchange(self.boots[gateway])
        self.notice()

    @rule(place=st.integers(0, 2))
    def message_is_lost(self, place):
        ledger = self.world.ledgers[self.live(place)]
        ledger.failed(ledger.asks(self.world.now), self.world.now)
        self.notice()

    @precondition(lambda self: self.late)
    @rule(which=st.integers(0, 1000))
    def old_message_arrives_again(self, which):
        self.world.deliver(*self.late[which % len(self.late)])

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 1000), tokens=st.integers(0, RESERVED_TOKENS))
    def request_ends(self, which, tokens):
        _, asker = self.running.pop(which % len(self.running))
        self.world.settle(asker, tokens=tokens)
        self.tokens += tokens

    @precondition(lambda self: self.waiting)
    @rule(which=st.integers(0, 1000))
    def waiting_client_leaves(self, which):
        gateway, asker = self.waiting.pop(which % len(self.waiting))
        self.world.ledgers[gateway].leave(asker)

    @rule(place=st.integers(0, 2))
    def gateway_is_killed_and_started(self, place):
        """What it had not yet told stays in its usage records, which the control plane counts: as spent by a holder."""
        gone = self.live(place)
        self.lost_tokens += self._untold_tokens(gone)
        self.world.crash(gone)
        self.running = [one for one in self.running if one[0] != gone]
        self.waiting = [one for one in self.waiting if one[0] != gone]
        self.boots[GATEWAYS[place]] = f"{gone}'"
        self.world.start(f"{gone}'")

    @rule(seconds=st.sampled_from([0.01, 0.1, 1.0, 2.5]))
    def time_passes(self, seconds):
        """Whoever is about to be taken for dead is heard in time: a gateway that lives says so twice a second."""
        for gateway in list(self.world.ledgers):
            heard_at_ms = self.world.authority._seen_at_ms.get(gateway, 0)
            if self.world.now + seconds - heard_at_ms / 1000 >= TTL_S:
                self.world.exchange(gateway)
        self.world.now += seconds
        self.notice()

    def _untold_tokens(self, gateway):
        spent = sum(a.spent for a in self.world.ledgers[gateway].accounts.values() if a.rule.kind == "tokens_per_day")
        account = next((a for n, a in self.world.authority._accounts.items() if n.startswith("tokens_per_day")), None)
        told = account.holders[gateway].spent if account is not None and gateway in account.holders else 0
        return max(spent - told, 0)

    def notice(self):
        admitted = [one for one in self.waiting if one[1].reservation is not None]
        self.running += admitted
        self.admitted_at += [self.world.now] * len(admitted)
        self.waiting = [one for one in self.waiting if one[1].is_waiting]

    @invariant()
    def no_limit_is_exceeded(self):
        now = self.world.now
        assert len(self.running) <= SLOTS
        assert sum(now - at < 60 for at in self.admitted_at) <= REQUESTS
        assert self.tokens - self.lost_tokens + RESERVED_TOKENS * len(self.running) <= TOKENS

    @invariant()
    def no_account_is_negative(self):
        for ledger in self.world.ledgers.values():
            for account in ledger.accounts.values():
                assert account.free >= 0
                assert account.reserved >= 0

    def teardown(self):
        """Once all is quiet, the authority knows exactly what is used, and everything else is there for the next."""
        world = self.world
        for _, asker in self.running:
            world.settle(asker, tokens=1)
            self.tokens += 1
        for gateway, asker in self.waiting:
            if asker.is_waiting:
                world.ledgers[gateway].leave(asker)
        world.turns(CALMS_DOWN_S)
        world.now += 61
        world.turns(0.3)
        for gateway in world.ledgers:
            for account in world.ledgers[gateway].accounts.values():
                assert (account.free, account.reserved, account.waiting) == (0, 0, 0)
        self._check_that_the_rest_is_there()

    def _check_that_the_rest_is_there(self):
        left = TOKENS - (self.tokens - self.lost_tokens)
        gateway = next(iter(self.world.ledgers))
        expected = min(SLOTS, REQUESTS, max(left, 0))
        assert self.world.count_admitted(*[gateway] * (expected + 2), output_tokens=1) == expected


SharedLimits.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestSharedLimits = SharedLimits.TestCase

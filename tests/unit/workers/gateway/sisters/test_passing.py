"""A connection is passed, refused or taken up, exactly once, and never while something is left to be written to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from workers.gateway.sisters.passing import WAIT_S, WRITTEN_WITHIN_S, Facts, Passer, next_step

pytestmark = pytest.mark.unit

facts = st.builds(Facts, st.booleans(), st.booleans(), st.booleans(), st.floats(0, 200))


@given(facts)
def test_nothing_is_passed_that_is_not_written_told_and_wanted(found):
    may_pass = found.is_owner_up and found.is_written and found.can_be_told
    assert (next_step(found) == "pass") == may_pass


@given(facts)
def test_nobody_waits_for_ever(found):
    assert next_step(found) != "wait" or found.waited_s < max(WAIT_S, WRITTEN_WITHIN_S)


@given(st.floats(0, 200))
def test_a_client_that_does_not_read_is_cut_off_and_never_refused_in_the_middle_of_an_answer(waited_s):
    assert next_step(Facts(True, False, True, waited_s)) in ("wait", "cut")


class Transport:
    def __init__(self):
        self.left_bytes = 0
        self.is_aborted = False

    def get_write_buffer_size(self):
        return self.left_bytes

    def abort(self):
        self.is_aborted = True


class Client:
    def __init__(self):
        self.transport = Transport()
        self.owner = None
        self.can_be_told = True
        self.ends = []

    def unanswered(self):
        return b"asked" if self.can_be_told else None

    def let_go(self):
        self.ends.append("let go")


class Sisters:
    def __init__(self):
        self.up = True
        self.has_room = True
        self.sent = []

    def is_up(self, owner):
        return self.up

    def flush(self): ...
    def send(self, owner, client, asked, passing):
        if self.has_room:
            assert client.transport.left_bytes == 0
            self.sent.append(client)
        return self.has_room

    def take_up(self, client, request):
        client.ends.append("taken up")

    def refuse(self, client, request):
        client.ends.append("refused")


class Timer:
    def cancel(self): ...


class Passings(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.sisters = Sisters()
        self.clients = []
        self.due = []
        self.passer = Passer(self.sisters, lambda: self.now, self.due.append, lambda delay_s, work: Timer())

    @rule(left_bytes=st.sampled_from([0, 0, 10]), can_be_told=st.sampled_from([True, True, False]))
    def asked_for_what_is_a_sisters(self, left_bytes, can_be_told):
        client = Client()
        client.transport.left_bytes, client.can_be_told = left_bytes, can_be_told
        self.clients.append(client)
        self.passer.begin(client, None, 1, 0)

    @rule(seconds=st.sampled_from([0.02, 1.0, 6.0, 70.0]))
    def time_passes(self, seconds):
        self.now += seconds
        self.due.clear()
        self.passer.look()

    @rule()
    def turn_ends(self):
        while self.due:
            self.due.pop()()

    @rule(up=st.booleans(), has_room=st.booleans())
    def owner_changes(self, up, has_room):
        self.sisters.up, self.sisters.has_room = up, has_room

    @rule()
    def all_is_written(self):
        for client in self.clients:
            client.transport.left_bytes = 0

    @rule()
    def one_leaves(self):
        for client in self.clients:
            if not client.ends and not client.transport.is_aborted:
                client.owner.client_left()
                client.ends.append("left")
                return

    @rule()
    def the_process_leaves(self):
        self.passer.take_up_all()

    @invariant()
    def each_has_one_end_or_waits(self):
        assert all(len(client.ends) <= 1 for client in self.clients)
        open_ones = sum(not client.ends for client in self.clients)
        assert len(self.passer) == open_ones
        assert len(self.sisters.sent) == sum(client.ends == ["let go"] for client in self.clients)


TestPassings = Passings.TestCase

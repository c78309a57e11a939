"""What a gateway says of a request each time that it asks another node for it."""

from types import SimpleNamespace

import pytest

from workers.contracts.settlement import Settlement
from workers.gateway import errors
from workers.gateway.front.proofs import FRESH_FOR_S, is_proven
from workers.gateway.front.rerouting import own_words, reroute
from workers.gateway.payload.labels import DEADLINE, FORWARDED, PROOF, RECORD

ARRIVED_UNIX_S = 1_800_000_000.0
WAITED_S = FRESH_FOR_S + 30


def said(**noted):
    settlement = Settlement(
        request_id="r",
        record_id="0199-of-its-record",
        arrived_at=5.0,
        arrived_unix_s=ARRIVED_UNIX_S,
        tenant_id="t",
        key_id="k",
        user_id="",
        service_class="gold",
        path="/v1/chat/completions",
    )
    snapshot = SimpleNamespace(peer_secret="s")
    introduction = SimpleNamespace(directory=SimpleNamespace(snapshot=snapshot), noted=noted.get("noted", {}))
    return dict(own_words(lambda: 5.0 + WAITED_S, introduction, settlement))


def test_who_waited_longer_than_a_proof_is_fresh_is_proven_all_the_same():
    assert is_proven("s", FORWARDED, b"r", said()[PROOF], ARRIVED_UNIX_S + WAITED_S)


def test_whoever_answers_is_told_what_the_record_is_known_by():
    assert said()[RECORD] == b"0199-of-its-record %r" % ARRIVED_UNIX_S


@pytest.mark.parametrize(("given", "left"), [(b"100000", b"10000"), (b" 90001 ", b"1"), (b"5", b"1")])
def test_what_it_waited_is_of_its_deadline(given, left):
    assert said(noted={DEADLINE: given})[DEADLINE] == left


@pytest.mark.parametrize("given", [b"0", b"", b"-1", b"soon", b"9" * 19])
def test_a_deadline_that_is_none_is_left_to_the_other_node_to_refuse(given):
    assert DEADLINE not in said(noted={DEADLINE: given})


def test_what_does_not_go_on_as_another_version_after_all_is_billed_as_the_one_that_it_waits_for():
    settlement = SimpleNamespace(version_id="first", deployment_id="d1", price="dear", attempts=0)

    def understand(request, introduction, settlement):
        settlement.version_id, settlement.deployment_id, settlement.price = "second", "d2", "cheap"
        raise errors.workflow_budget()

    intake = SimpleNamespace(
        choose_version=lambda *_: SimpleNamespace(version_id="second"),
        understand=understand,
        facilities=SimpleNamespace(driver=SimpleNamespace(serves=lambda version_id: version_id == "second")),
    )
    question = SimpleNamespace(peek=None, public_model="m", request=None)
    reroute(intake, SimpleNamespace(question=question, settlement=settlement, begin_again=None), None)
    assert (settlement.version_id, settlement.deployment_id, settlement.price) == ("first", "d1", "dear")

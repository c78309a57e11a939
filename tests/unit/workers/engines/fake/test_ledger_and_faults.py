import pytest

from workers.engines.fake.faults import ErrorShare
from workers.engines.fake.ledger import Ledger, LedgerEntry

pytestmark = pytest.mark.unit


def entry(request_id):
    return LedgerEntry(request_id=request_id, path="/v1/completions", arrived_at=1.0)


def test_the_oldest_requests_are_forgotten_first():
    ledger = Ledger(limit=2)
    for name in "abc":
        ledger.open(entry(name))
    assert [each.request_id for each in ledger.entries()] == ["b", "c"]


def test_a_request_is_closed_once():
    ledger = Ledger()
    number = ledger.open(entry("a"))
    for outcome in ("length", "abort"):
        ledger.close(number, outcome=outcome, cached_tokens=1, completion_tokens=2, ended_at=2.0)
    assert [each.outcome for each in ledger.entries("a")] == ["length"]


def test_closing_a_forgotten_request_does_nothing():
    ledger = Ledger(limit=1)
    number = ledger.open(entry("a"))
    ledger.open(entry("b"))
    ledger.close(number, outcome="stop", cached_tokens=0, completion_tokens=0, ended_at=2.0)
    assert [each.outcome for each in ledger.entries()] == ["running"]


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 0), (0.1, 10), (0.25, 25), (1.0, 100)])
def test_errors_are_an_even_share(rate, expected):
    share = ErrorShare()
    assert sum(share.is_next(rate) for _ in range(100)) == expected

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.contracts.recording import cost_pico_usd
from workers.contracts.settlement import NOTHING, Origin, Settlement, Used
from workers.contracts.snapshot import Price
from workers.gateway.payload.bodies import PromptDetails, Usage
from workers.gateway.records.metering import Meter, estimated_from_first, reported

pytestmark = pytest.mark.unit

PRICE = Price(input_pico_usd=150_000, cached_input_pico_usd=75_000, output_pico_usd=600_000)


class MemorySpool:
    def __init__(self):
        self.records = []

    def append(self, record):
        self.records.append(record)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def meter_with(spool, clock):
    return Meter(
        spool,
        origin=Origin(gateway_id="g1", boot_id="b1", node_id="n1"),
        monotonic=clock,
        unix_time=lambda: clock.now + 1_700_000_000,
        randomness=random.Random(1),  # noqa: S311 - a test
    )


def settlement(**changes):
    fields = {
        "request_id": "r1",
        "arrived_at": 1000.0,
        "tenant_id": "t1",
        "key_id": "k1",
        "user_id": "u1",
        "service_class": "gold",
        "path": "/v1/chat/completions",
        "price": PRICE,
    }
    return Settlement(**fields | changes)


def test_cached_tokens_are_charged_at_their_own_price_and_only_once():
    used = Used(source="engine", input_tokens=1000, cached_input_tokens=400, output_tokens=50)
    assert cost_pico_usd(used, PRICE) == 600 * 150_000 + 400 * 75_000 + 50 * 600_000


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(0, 10**7))
def test_reported_usage_never_makes_a_negative_cost(tokens_in, cached, tokens_out):
    usage = Usage(tokens_in, tokens_out, PromptDetails(cached))
    assert cost_pico_usd(reported(usage), PRICE) >= 0


def test_usage_that_an_engine_reports_as_null_or_negative_counts_as_nothing():
    assert reported(Usage(None, None)) == Used(source="engine")
    assert reported(Usage(-5, -1)) == Used(source="engine")


def test_an_estimate_is_flagged_and_goes_by_what_was_expected_unless_the_engine_told_of_the_prompt():
    request = settlement(expected_input_tokens=101, output_limit=5)
    assert request.estimate(7) == Used(source="estimated", input_tokens=101, output_tokens=5)
    assert request.estimate(3, 90) == Used(source="estimated", input_tokens=90, output_tokens=3)


def test_what_an_engine_leaves_out_of_several_choices_is_estimated_from_the_first():
    used = estimated_from_first(Usage(5, 8), choices=4, prompts=2)
    assert used == Used(source="estimated", input_tokens=10, output_tokens=32)


def test_a_record_says_who_what_when_and_how_much():
    spool, clock = MemorySpool(), Clock()
    meter = meter_with(spool, clock)
    clock.now = 1002.5
    request = settlement(dispatched_at=1000.5, first_token_at=1001.0, attempts=2)
    meter.settle(request, Used(source="engine", input_tokens=10, output_tokens=4), "completed", 200)
    [record] = spool.records
    assert (record.queue_ms, record.ttft_ms, record.total_ms) == (500.0, 1000.0, 2500.0)
    assert record.arrived_at == 1_700_001_000.0
    assert record.cost_pico_usd == 10 * 150_000 + 4 * 600_000
    assert (record.attempts, record.outcome, record.usage_source) == (2, "completed", "engine")


def test_a_request_that_never_ran_has_no_queue_time_and_no_ttft():
    spool, clock = MemorySpool(), Clock()
    meter_with(spool, clock).settle(settlement(), NOTHING, "refused", 429, "queue_full")
    [record] = spool.records
    assert record.queue_ms is None
    assert record.ttft_ms is None
    assert record.cost_pico_usd == 0


def test_sequence_numbers_have_no_gaps_and_ids_no_doubles():
    spool, clock = MemorySpool(), Clock()
    meter = meter_with(spool, clock)
    for _ in range(100):
        meter.settle(settlement(), NOTHING, "refused", 429)
    assert [record.sequence for record in spool.records] == list(range(1, 101))
    assert len({record.record_id for record in spool.records}) == 100


def test_what_awaits_its_delivery_gets_its_number_when_it_is_written():
    spool, awaited, kept = MemorySpool(), settlement(awaits_delivery=True), []
    meter = meter_with(spool, Clock())
    meter.identify(awaited)
    meter.keepers[awaited.record_id] = kept.append
    meter.settle(awaited, NOTHING, "completed", 200)
    meter.settle(settlement(), NOTHING, "completed", 200)
    meter.write_delivered(awaited, kept[0])
    assert [record.sequence for record in spool.records] == [1, 2]


def test_totals_count_what_was_settled():
    spool, clock = MemorySpool(), Clock()
    meter = meter_with(spool, clock)
    meter.settle(settlement(), Used(source="engine", input_tokens=10, output_tokens=4), "completed", 200)
    meter.settle(settlement(), NOTHING, "refused", 429)
    meter.settle(settlement(), NOTHING, "failed", 502)
    assert (meter.requests_total, meter.refused_total, meter.failed_total) == (3, 1, 1)
    assert (meter.input_tokens_total, meter.output_tokens_total) == (10, 4)


def test_times_to_first_token_are_forgotten_after_a_minute():
    spool, clock = MemorySpool(), Clock()
    meter = meter_with(spool, clock)
    meter.settle(settlement(first_token_at=1000.3), NOTHING, "completed", 200)
    assert meter.ttfts_ms() == pytest.approx([300])
    clock.now += 61
    assert meter.ttfts_ms() == []


def test_time_on_engines_is_that_of_every_attempt():
    spool, clock = MemorySpool(), Clock()
    clock.now = 1009.0
    meter_with(spool, clock).settle(
        settlement(dispatched_at=1005.0, on_engine_since=1005.0, spent_engine_s=2.0), NOTHING, "failed", 502
    )
    assert spool.records[0].engine_ms == 6000.0


def test_a_request_that_never_reached_an_engine_has_no_time_on_one():
    spool, clock = MemorySpool(), Clock()
    meter_with(spool, clock).settle(settlement(), NOTHING, "refused", 429)
    assert spool.records[0].engine_ms is None

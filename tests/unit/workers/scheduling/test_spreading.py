"""Where requests go: affinity without hot spots, and what is believed when telemetry stops."""

from math import ceil
from random import Random

import pytest

from tests.unit.workers.scheduling.bench import Bench
from workers.scheduling.interface import Dispatch, EngineReport, KVChange, Request, SchedulerConfig
from workers.scheduling.scheduler import Scheduler

pytestmark = pytest.mark.unit

SHARED_PREFIX = tuple(range(1, 33))
BLOCK_TOKENS = 128


class Fleet:
    def __init__(self, count, *, slots=1000):
        self.scheduler = Scheduler(SchedulerConfig(max_queued_requests=100_000))
        self.now = 0.0
        self.number = 0
        self.sent = {}
        self.order = []
        for index in range(count):
            self.scheduler.endpoint_updated(f"e{index}", "v", slots, self.now, is_draining=False)

    def apply(self, commands):
        for command in commands:
            assert isinstance(command, Dispatch)
            self.sent[command.request_id] = command.endpoint_id
            self.order.append(command.request_id)

    def arrive(self, *, prompt_tokens=400, blocks=(), rank=0, tenant="t", ttft_slo_s=None):
        self.number += 1
        request = Request(
            request_id=self.number, version_id="v", tenant_id=tenant, rank=rank, max_queued_of_tenant=100_000,
            arrived_at=self.now, prompt_tokens=prompt_tokens, predicted_output_tokens=100.0, prefix_blocks=blocks,
            block_tokens=BLOCK_TOKENS, ttft_slo_s=ttft_slo_s,
        )  # fmt: skip
        self.apply(self.scheduler.request_arrived(request, self.now))
        return self.number

    def advance(self, seconds, step=0.01):
        end = self.now + seconds
        while self.now < end:
            self.now += step
            self.apply(self.scheduler.tick(self.now))

    def end(self, number):
        self.apply(self.scheduler.request_finished(number, self.now, 100))

    def loads(self):
        return [list(self.sent.values()).count(f"e{index}") for index in range(len(self.scheduler._endpoints))]


def test_800_arrivals_at_once_spread_within_two_of_each_other():
    fleet = Fleet(8)
    for _ in range(800):
        fleet.arrive()
    fleet.advance(10.0)
    loads = fleet.loads()
    assert sum(loads) == 800
    assert max(loads) - min(loads) <= 2


def test_one_shared_prefix_makes_no_hot_spot_and_still_hits():
    fleet = Fleet(8)
    rng = Random(1)  # noqa: S311 - seeded
    running = []
    hits = 0
    for number in range(800):
        own = (1_000_000 + number * 10,)
        holders = {e for e in range(8) if fleet.scheduler._queues.pools["v"].fleet.index.count(SHARED_PREFIX, e) == 32}
        sent = fleet.arrive(prompt_tokens=33 * BLOCK_TOKENS, blocks=SHARED_PREFIX + own)
        fleet.advance(0.05, step=0.05)
        running.append(sent)
        hits += int(fleet.sent[sent][1:]) in holders
        if len(running) > 200:
            fleet.end(running.pop(rng.randrange(len(running))))
    loads = fleet.loads()
    assert max(loads) <= 1.5 * sum(loads) / 8
    assert hits >= 0.8 * 800


@pytest.mark.parametrize("depth", [2, 5, 9, 12, 16, 20, 30, 50])
def test_one_shared_prefix_makes_no_hot_spot_however_little_runs(depth):
    """Not more than 1.5 times the mean, or than there must be in one place: 9 requests on 8 endpoints mean two."""
    fleet = Fleet(8)
    rng = Random(2)  # noqa: S311 - seeded
    running, hits = [], 0
    for number in range(300):
        index = fleet.scheduler._queues.pools["v"].fleet.index
        holders = [f"e{endpoint}" for endpoint in range(8) if index.count(SHARED_PREFIX, endpoint) == 32]
        if len(running) == depth:
            fleet.end(running.pop(rng.randrange(depth)))
        sent = fleet.arrive(prompt_tokens=33 * BLOCK_TOKENS, blocks=(*SHARED_PREFIX, 1_000_000 + number))
        fleet.advance(0.05, step=0.05)
        running.append(sent)
        hits += fleet.sent[sent] in holders
        beside = sum(fleet.sent[other] == fleet.sent[sent] for other in running)
        assert beside <= max(ceil(len(running) / 8), 1.5 * len(running) / 8)
    assert hits >= 0.8 * 300


@pytest.mark.parametrize(("beside", "stays"), [(8, True), (30, False)])
def test_a_conversation_leaves_its_endpoint_only_where_that_runs_far_more_than_others(beside, stays):
    """Elsewhere its context is computed again, and takes cache from other conversations."""
    fleet = Fleet(4)
    conversation = tuple(range(1000, 1100))
    fleet.scheduler.prefixes_changed("e3", [KVChange(stored=conversation)], fleet.now)
    for number in range(beside):
        blocks = tuple(range(10_000 * number, 10_000 * number + 32))
        fleet.scheduler.prefixes_changed("e3", [KVChange(stored=blocks, parent=None)], fleet.now)
        fleet.arrive(prompt_tokens=33 * BLOCK_TOKENS, blocks=blocks)
        fleet.advance(0.1)
    beside_it = [number for number, name in fleet.sent.items() if name == "e3"]
    going_on = fleet.arrive(prompt_tokens=101 * BLOCK_TOKENS, blocks=conversation)
    assert (fleet.sent[going_on] == "e3") is stays, (len(beside_it), fleet.sent)


def test_conversations_stay_where_they_are_known_though_nothing_runs_elsewhere():
    fleet = Fleet(8)
    conversations = [tuple(range(first, first + 32)) for first in (1000, 2000, 3000, 4000)]
    fleet.scheduler.prefixes_changed("e3", [KVChange(stored=blocks) for blocks in conversations], fleet.now)
    for blocks in conversations:
        fleet.arrive(prompt_tokens=33 * BLOCK_TOKENS, blocks=blocks)
        fleet.advance(0.05, step=0.05)
    assert fleet.loads()[3] == len(conversations)


def test_a_session_comes_back_to_the_endpoint_that_knows_it():
    fleet = Fleet(8)
    first = fleet.arrive(prompt_tokens=5000, blocks=SHARED_PREFIX)
    fleet.advance(1.0)
    fleet.end(first)
    second = fleet.arrive(prompt_tokens=5200, blocks=SHARED_PREFIX)
    assert fleet.sent[second] == fleet.sent[first]


def test_an_endpoint_whose_cache_is_full_by_its_own_word_gets_nothing():
    fleet = Fleet(2)
    first = fleet.arrive()
    full = fleet.sent[first]
    fleet.apply(
        fleet.scheduler.endpoint_reported(
            full, EngineReport(taken_at=fleet.now, running=1, waiting=0, kv_usage=0.99), fleet.now
        )
    )
    later = [fleet.arrive() for _ in range(5)]
    assert full not in {fleet.sent[number] for number in later if number in fleet.sent}


def test_when_telemetry_stops_own_counts_decide():
    fleet = Fleet(1)
    fleet.arrive(prompt_tokens=300_000)
    fleet.advance(20.0)
    endpoint = fleet.scheduler._endpoints["e0"]
    idle = EngineReport(taken_at=0.0, running=0, waiting=0, kv_usage=0.0)
    fleet.apply(fleet.scheduler.endpoint_reported("e0", idle, fleet.now))
    assert endpoint.kv_used(fleet.now) >= 300_000
    without_room = fleet.arrive(prompt_tokens=200_000)
    assert without_room not in fleet.sent


def test_a_report_out_of_order_changes_nothing():
    fleet = Fleet(1)
    endpoint = fleet.scheduler._endpoints["e0"]
    fleet.now = 1.0
    for taken_at, usage in ((0.9, 0.5), (0.4, 0.1)):
        report = EngineReport(taken_at=taken_at, running=1, waiting=0, kv_usage=usage)
        fleet.apply(fleet.scheduler.endpoint_reported("e0", report, fleet.now))
    assert endpoint.kv_used(fleet.now) == pytest.approx(0.5 * endpoint.kv_capacity)


def test_a_flood_of_batch_work_delays_gold_by_no_more_than_what_runs():
    fleet = Fleet(1, slots=4)
    flood = [fleet.arrive(rank=2, tenant="batch", prompt_tokens=2000) for _ in range(200)]
    fleet.advance(1.0)
    gold = fleet.arrive(rank=0, tenant="gold", prompt_tokens=200, ttft_slo_s=0.5)
    ahead = len(fleet.order)
    for number in flood[:4]:
        fleet.end(number)
        fleet.advance(0.1)
    assert fleet.order.index(gold) <= ahead + 2


def test_ageing_bounds_every_wait():
    fleet = Fleet(1, slots=1)
    running = fleet.arrive()
    starving = fleet.arrive(rank=2, tenant="batch")
    for _ in range(300):
        fleet.arrive(rank=0, tenant="gold", ttft_slo_s=1000.0)
        fleet.end(running)
        fleet.advance(0.3, step=0.1)
        running = fleet.order[-1]
        if running == starving:
            break
    assert running == starving
    assert fleet.now < 60.0


def test_of_many_endpoints_that_have_the_prefix_the_least_loaded_is_chosen():
    fleet = Fleet(8)
    for index in range(8):
        fleet.scheduler.prefixes_changed(f"e{index}", [KVChange(stored=SHARED_PREFIX)], fleet.now)
    for number in range(64):
        fleet.arrive(prompt_tokens=33 * BLOCK_TOKENS, blocks=(*SHARED_PREFIX, 2_000_000 + number))
        fleet.advance(0.05, step=0.05)
    assert fleet.loads() == [8] * 8


def test_what_an_endpoint_has_cached_counts_also_where_others_with_the_same_prefix_run_less():
    """Thought to compute it anew, it would look fast, and draw ever more."""
    fleet = Fleet(3)
    for index in range(3):
        fleet.scheduler.prefixes_changed(f"e{index}", [KVChange(stored=SHARED_PREFIX)], fleet.now)
    busy = fleet.arrive(blocks=(7_000_000,))
    others = [f"e{index}" for index in range(3) if f"e{index}" != fleet.sent[busy]]
    for name in others:
        fleet.scheduler.drain_started(name, fleet.now)
    fleet.advance(1.0)
    fleet.arrive(prompt_tokens=33 * BLOCK_TOKENS, blocks=(*SHARED_PREFIX, 2_000_000))
    fleet.advance(1.0)
    considered = fleet.scheduler.take_decisions()[-1].considered
    [chosen] = [seen for seen in considered if seen.endpoint_id == fleet.sent[busy]]
    assert chosen.hit_tokens == 32 * BLOCK_TOKENS


def test_of_those_with_the_prefix_that_run_as_much_each_has_its_turn():
    fleet = Fleet(4)
    for index in range(4):
        fleet.scheduler.prefixes_changed(f"e{index}", [KVChange(stored=SHARED_PREFIX)], fleet.now)
    for number in range(40):
        fleet.end(fleet.arrive(prompt_tokens=33 * BLOCK_TOKENS, blocks=(*SHARED_PREFIX, 2_000_000 + number)))
        fleet.advance(0.1)
    assert fleet.loads() == [10] * 4


@pytest.mark.parametrize("engine_says", ["nothing", "that it works"])
def test_an_engine_that_answers_nothing_while_others_do_gets_no_more_whatever_it_says(engine_says):
    fleet = Fleet(4)
    for number in range(400):
        sent = fleet.arrive()
        if fleet.sent[sent] != "e0":
            fleet.apply(fleet.scheduler.first_token(sent, fleet.now))
            fleet.end(sent)
        if engine_says != "nothing":
            report = EngineReport(taken_at=fleet.now, running=0, waiting=0, kv_usage=0.0, steps_total=float(number))
            fleet.apply(fleet.scheduler.endpoint_reported("e0", report, fleet.now))
        fleet.advance(0.05, step=0.05)
    assert fleet.loads()[0] <= 20


def test_an_engine_that_is_slow_to_answer_is_sent_to_again_once_it_has():
    fleet = Fleet(2)
    stuck = []
    for _ in range(200):
        sent = fleet.arrive()
        if fleet.sent[sent] == "e0":
            stuck.append(sent)
        else:
            fleet.end(sent)
        fleet.advance(0.05, step=0.05)
    for number in stuck:
        fleet.end(number)
    before = fleet.loads()[0]
    for _ in range(20):
        fleet.end(fleet.arrive())
        fleet.advance(0.05, step=0.05)
    assert fleet.loads()[0] >= before + 9


def test_of_idle_equals_each_has_its_turn():
    bench = Bench()
    for name in ("e1", "e2", "e3"):
        bench.endpoint(name)
    for number in range(6):
        bench.finish(bench.arrive(prefix_blocks=(number,), block_tokens=16))
        bench.after(0.1)
    assert [bench.sent[number] for number in range(1, 7)] == ["e1", "e2", "e3"] * 2

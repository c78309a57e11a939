import asyncio
from collections import Counter
from types import SimpleNamespace

import pytest

from workers.engines.interface import EngineReading
from workers.gateway.driving.watching import (
    ANSWER_WITHIN_S,
    BUSY_EACH_S,
    IDLE_EACH_S,
    LOOK_EACH_S,
    EngineWatcher,
    read_metrics,
)
from workers.gateway.http.engine_pool import EnginePool
from workers.gateway.http.heads import answer_head
from workers.gateway.http.turns import Turn
from workers.gateway.http.upstream import UpstreamError

pytestmark = pytest.mark.unit

OK = answer_head(200, [(b"content-length", b"1")])
LOST = answer_head(404, [(b"content-length", b"1")])


class Connection:
    """An engine's, that keeps who asked."""

    def __init__(self):
        self.transport = SimpleNamespace(is_closing=lambda: False, close=lambda: None)
        self.readers = []
        self.is_abandoned = False

    def ask(self, request, reader):
        assert request.startswith(b"GET /metrics HTTP/1.1\r\n")
        self.readers.append(reader)

    def abandon(self):
        self.is_abandoned = True


class Fleet:
    """Engines, each with a kept connection; the driver that is told of them, and a clock."""

    def __init__(self, monkeypatch, count, running=()):
        self.now = 100.0
        self.readings = []
        self.connections = [Connection() for _ in range(count)]
        kept = iter(self.connections)
        monkeypatch.setattr(EnginePool, "take_idle", lambda _pool: next(kept))
        self.engines = [
            SimpleNamespace(endpoint=SimpleNamespace(endpoint_id=str(n), base_url="http://e", engine="vllm"))
            for n in range(count)
        ]
        self.running = Counter(dict.fromkeys(running, 1))
        self.watcher = EngineWatcher(
            self, lambda: self.now, Turn(SimpleNamespace(), lambda _end: None, lambda: self.now)
        )

    def count_running(self):
        return self.running

    def reported(self, engine, reading, taken_at):
        self.readings.append((engine.endpoint.endpoint_id, reading.running_requests, taken_at))

    def look(self, after_s=LOOK_EACH_S):
        self.now += after_s
        before = self.asked()
        self.watcher.look()
        return self.asked() - before

    def asked(self):
        return sum(len(connection.readers) for connection in self.connections)


def answer(reader, body, head=OK):
    reader.answer_began(head)
    reader.answer_ended([body])


def test_engines_are_asked_one_after_the_other_and_each_as_often_as_it_is_due(monkeypatch):
    fleet = Fleet(monkeypatch, 5, running="01234")
    assert [fleet.look() for _ in range(6)] == [1, 1, 1, 1, 1, 0]
    many = Fleet(monkeypatch, 12)
    assert [many.look() for _ in range(6)] == [3, 3, 3, 3, 0, 0]


def test_what_an_engine_says_counts_from_when_it_was_asked(monkeypatch):
    fleet = Fleet(monkeypatch, 1)
    fleet.look()
    asked_at = fleet.now
    fleet.now += 0.3
    answer(fleet.connections[0].readers[0], b"vllm:num_requests_running{} 3.0\n")
    assert fleet.readings == [("0", 3, asked_at)]


@pytest.mark.parametrize(("running", "each_s"), [("0", BUSY_EACH_S), ("", IDLE_EACH_S)])
def test_an_engine_at_work_is_asked_more_often(monkeypatch, running, each_s):
    fleet = Fleet(monkeypatch, 1, running)
    monkeypatch.setattr(EnginePool, "take_idle", lambda _pool: fleet.connections[0])
    fleet.look()
    answer(fleet.connections[0].readers[0], b"")
    assert fleet.look(after_s=each_s - 0.01) == 0
    assert fleet.look(after_s=0.02) == 1


def test_an_engine_that_does_not_answer_is_given_up_and_asked_again(monkeypatch):
    fleet = Fleet(monkeypatch, 1, running="0")
    first, second = fleet.connections[0], Connection()
    fleet.look()
    assert fleet.look(after_s=ANSWER_WITHIN_S - 0.01) == 0
    monkeypatch.setattr(EnginePool, "take_idle", lambda _pool: second)
    fleet.look(after_s=0.02)
    assert first.is_abandoned
    assert len(second.readers) == 1


@pytest.mark.parametrize(
    "fail", [lambda reader: answer(reader, b"no", LOST), lambda reader: reader.answer_failed(UpstreamError("gone"))]
)
def test_no_answer_says_nothing(monkeypatch, fail):
    fleet = Fleet(monkeypatch, 1)
    fleet.look()
    fail(fleet.connections[0].readers[0])
    assert fleet.readings == []
    assert not fleet.watcher._watches[id(fleet.engines[0])].is_asking


def test_an_engine_without_a_kept_connection_gets_one_and_who_cannot_be_reached_is_tried_again(monkeypatch):
    async def run():
        fleet = Fleet(monkeypatch, 1, running="0")
        outcomes = iter([UpstreamError("refused"), fleet.connections[0]])

        async def connect(_pool):
            outcome = next(outcomes)
            if isinstance(outcome, UpstreamError):
                raise outcome
            return outcome

        monkeypatch.setattr(EnginePool, "take_idle", lambda _pool: None)
        monkeypatch.setattr(EnginePool, "connect", connect)
        for _ in range(2):
            fleet.look(after_s=BUSY_EACH_S)
            await asyncio.sleep(0)
        assert fleet.asked() == 1

    asyncio.run(run())


def test_of_an_engine_that_is_gone_nothing_is_awaited(monkeypatch):
    fleet = Fleet(monkeypatch, 1)
    fleet.look()
    fleet.engines.clear()
    fleet.look(after_s=BUSY_EACH_S)
    assert fleet.connections[0].is_abandoned


def test_metrics_are_read_in_each_engines_words():
    vllm = (
        '# HELP x\nvllm:num_requests_running{a="b"} 2.0\nvllm:kv_cache_usage_perc{} 0.25\n'
        "vllm:iteration_tokens_total_count{} 9\n"
        'vllm:cache_config_info{x_block_size="1",block_size="16",num_gpu_blocks="10"} 1.0\n'
    )
    assert read_metrics("vllm", vllm) == EngineReading(
        running_requests=2, kv_used_ratio=0.25, steps_total=9, block_tokens=16, kv_capacity_tokens=160
    )
    assert read_metrics("llamacpp", "llamacpp:requests_processing 3\n") == EngineReading(running_requests=3)
    assert read_metrics("vllm", "nonsense") == EngineReading()

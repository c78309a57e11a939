import pytest

from workers.contracts.endpoints import Endpoint, EngineShape
from workers.engines.interface import EngineReading
from workers.gateway.engines import Engine
from workers.gateway.watching import STALL_S, UNKNOWN_STALL_S, EngineWatcher, Watch, read_metrics

pytestmark = pytest.mark.unit


class Driver:
    def __init__(self, engine):
        self.engines = [engine]
        self.heard = {}
        self.told = []

    def heard_at(self):
        return self.heard

    def stalled(self, engine):
        engine.is_stalled = True
        self.told.append("stalled")

    def resumed(self, engine):
        engine.is_stalled = False
        self.told.append("resumed")


class Yard:
    def __init__(self, shape):
        self.now = 0.0
        endpoint = Endpoint(endpoint_id="e", version_id="v", base_url="http://h:1", shape=shape)
        self.engine = Engine(endpoint, pool=None)
        self.driver = Driver(self.engine)
        self.watcher = EngineWatcher(self.driver, lambda: self.now, turn=None)
        self.watch = Watch(self.engine, pool=None, asking="never answered")
        self.watcher._watches[id(self.engine)] = self.watch

    def look(self, now):
        self.now = now
        self.watcher.look()
        return self.driver.told


@pytest.fixture
def yard():
    return Yard(EngineShape(cost_profile="llama3-8b/h100/tp1"))


def test_an_engine_with_requests_and_no_sign_of_work_has_stalled(yard):
    yard.driver.heard = {"e": 0.0}
    assert yard.look(STALL_S - 0.1) == []
    assert yard.look(STALL_S) == ["stalled"]


def test_an_engine_without_requests_has_nothing_to_show(yard):
    assert yard.look(100 * STALL_S) == []


def test_a_request_that_moves_or_a_count_that_moves_is_a_sign_of_work(yard):
    yard.driver.heard = {"e": STALL_S}
    assert yard.look(STALL_S + 1) == []
    yard.watch.moved_at = 2 * STALL_S
    assert yard.look(3 * STALL_S - 1) == []


def test_a_stalled_engine_is_let_in_again_later_each_time(yard):
    yard.driver.heard = {"e": 0.0}
    yard.look(STALL_S)
    yard.driver.heard = {}
    assert yard.look(2.9 * STALL_S) == ["stalled"]
    assert yard.look(3 * STALL_S) == ["stalled", "resumed"]
    yard.driver.heard = {"e": 3 * STALL_S}
    yard.look(4 * STALL_S)
    assert yard.look(7.9 * STALL_S)[-1] == "stalled"
    assert yard.look(8 * STALL_S)[-1] == "resumed"


def test_an_engine_of_unknown_speed_is_given_more_time():
    yard = Yard(EngineShape())
    yard.driver.heard = {"e": 0.0}
    assert yard.look(UNKNOWN_STALL_S - 1) == []
    assert yard.look(UNKNOWN_STALL_S) == ["stalled"]


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

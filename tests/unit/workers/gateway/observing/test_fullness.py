import pytest

from tests.support.gateways import snapshot_for
from workers.engines.interface import EngineReading
from workers.gateway.attempts.engines import Engine
from workers.gateway.http.engine_pool import EnginePool
from workers.gateway.observing.fullness import blocks_by_model, kv_used_by_model
from workers.gateway.snapshots.directory import Directory

pytestmark = pytest.mark.unit

SNAPSHOT = snapshot_for(("demo-chat", 100, [1, 2, 3]))


def engines(*used):
    made = []
    for endpoint, ratio in zip(SNAPSHOT.endpoints, used, strict=True):
        engine = Engine(endpoint, EnginePool(endpoint.base_url, None))
        engine.reading = EngineReading(kv_used_ratio=ratio) if ratio != "silent" else None
        made.append(engine)
    return made


def test_a_models_caches_are_one_mean():
    assert kv_used_by_model(Directory(SNAPSHOT), engines(0.2, 0.4, 0.9)) == {"demo-chat": pytest.approx(0.5)}


def test_who_has_told_nothing_does_not_count_as_empty():
    assert kv_used_by_model(Directory(SNAPSHOT), engines(0.2, None, "silent")) == {"demo-chat": 0.2}
    assert kv_used_by_model(Directory(SNAPSHOT), engines(None, None, "silent")) == {}
    assert kv_used_by_model(None, engines(0.2, 0.2, 0.2)) == {}


def test_blocks_of_one_size_are_counted_together_and_of_others_apart():
    sized = engines(0.1, 0.1, "silent")
    for engine, block_tokens in zip(sized, (16, 128), strict=False):
        engine.reading = EngineReading(block_tokens=block_tokens, kv_capacity_tokens=1280)
    assert blocks_by_model(Directory(SNAPSHOT), sized) == {"demo-chat": {16: 80, 128: 10}}
    sized[1].reading = sized[0].reading
    assert blocks_by_model(Directory(SNAPSHOT), sized) == {"demo-chat": {16: 160}}


def test_an_engine_that_tells_no_size_has_no_known_blocks():
    assert blocks_by_model(Directory(SNAPSHOT), engines(0.1, None, "silent")) == {}

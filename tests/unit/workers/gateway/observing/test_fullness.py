import pytest

from tests.support.gateways import snapshot_for
from workers.engines.interface import EngineReading
from workers.gateway.attempts.engines import Engine
from workers.gateway.http.upstream import EnginePool
from workers.gateway.observing.fullness import kv_used_by_model
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

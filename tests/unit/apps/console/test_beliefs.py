import pytest

from apps.console.policies.beliefs import beliefs_of
from workers.contracts.telemetry import (
    EndpointEstimate,
    GatewayReport,
    LengthEstimate,
    NodeTelemetry,
    SchedulerReport,
    TenantQueue,
)

pytestmark = pytest.mark.unit


def node(name, **report):
    gateway = GatewayReport(gateway_id=name, boot_id="b", active_generation=1, scheduler=SchedulerReport(**report))
    return NodeTelemetry(
        node_id=name,
        boot_id="b",
        sequence=1,
        sampled_at=0.0,
        desired_generation=0,
        snapshot_generation=0,
        gateway=gateway,
    )


def test_queues_of_all_gateways_add_up_by_class_and_by_tenant():
    gold = [TenantQueue(tenant_id=tenant, service_class="gold", queued=2, running=1) for tenant in "ab"]
    batch = [TenantQueue(tenant_id="c", service_class="batch", queued=9)]
    beliefs = beliefs_of([node("n1", tenants=gold), node("n2", tenants=[*gold, *batch])])
    assert [(queue.service_class, queue.queued, queue.running) for queue in beliefs.classes] == [
        ("batch", 9, 0),
        ("gold", 8, 4),
    ]
    assert [(queue.tenant_id, queue.queued) for queue in beliefs.tenants] == [("c", 9), ("a", 4), ("b", 4)]


def test_engines_and_estimates_stand_side_by_side():
    estimates = {
        "endpoints": [EndpointEstimate(endpoint_id="e", version_id="v", state="open")],
        "lengths": [LengthEstimate(tenant_id="t", version_id="v", tokens=9.0, error=0.1, answers=3)],
    }
    beliefs = beliefs_of([node("n1", **estimates), node("n2")])
    assert [(engine.node_id, engine.estimate.endpoint_id) for engine in beliefs.engines] == [("n1", "e")]
    assert beliefs.lengths == estimates["lengths"]
    assert beliefs.tenant_ids == set()


@pytest.mark.parametrize(
    ("state", "word", "meaning"),
    [
        ("exact", "exact", "follows"),
        ("silent", "approximate", "stopped"),
        ("partial", "approximate", "before"),
        ("", "own count", "no KV events"),
        ("of a newer gateway", "own count", "sent there"),
    ],
)
def test_an_engine_says_where_its_prefixes_are_known_from(state, word, meaning):
    estimate = EndpointEstimate(endpoint_id="e", version_id="v", state="serving", cache_state=state)
    [engine] = beliefs_of([node("n1", endpoints=[estimate])]).engines
    assert engine.cache["word"] == word
    assert meaning in engine.cache["meaning"]


def test_a_node_without_a_gateway_believes_nothing():
    beliefs = beliefs_of([])
    assert (beliefs.gateways, beliefs.classes, beliefs.engines) == (0, [], [])

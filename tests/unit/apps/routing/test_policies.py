from uuid import UUID

import msgspec
import pytest

from apps.routing.policies import (
    MAX_NODES,
    Placed,
    content_sha256,
    nodes_by_version,
    origins_of,
    problem_of_weights,
)
from workers.contracts.snapshot import ServiceClass, Snapshot

pytestmark = pytest.mark.unit

V1, V2 = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize("weights", [{V1: 90, V2: 10}, {V1: 0, V2: 1}, {V1: 10_000}])
def test_weights_that_send_requests_somewhere_are_fine(weights):
    assert problem_of_weights(weights) is None


@pytest.mark.parametrize("weights", [{}, {V1: 0}, {V1: -1, V2: 2}, {V1: 10_001}])
def test_weights_that_do_not_are_refused(weights):
    assert problem_of_weights(weights)


def snapshot(**fields):
    empty = {"service_classes": [], "slo_profiles": [], "tenants": [], "keys": [], "versions": [], "routes": []}
    return Snapshot(**({"generation": 1, "compiled_at": 1.0} | empty | fields))


def test_a_new_number_and_time_are_no_new_content():
    assert content_sha256(snapshot()) == content_sha256(snapshot(generation=2, compiled_at=9.0))


def test_anything_else_is():
    changed = msgspec.structs.replace(snapshot(), service_classes=[ServiceClass(name="gold", rank=0)])
    assert content_sha256(changed) != content_sha256(snapshot())


def test_on_this_machine_both_names_of_it_may_call_the_gateway():
    assert origins_of("http://127.0.0.1:8000") == ["http://localhost:8000", "http://127.0.0.1:8000"]
    assert origins_of("https://yard.example/x") == ["https://yard.example"]


def test_a_request_is_forwarded_to_nodes_that_are_ready_and_to_those_that_start_where_none_is():
    ready, starting, lone = (UUID(int=number) for number in (1, 2, 3))
    one, two = UUID(int=11), UUID(int=12)
    placed = [Placed(one, ready, True), Placed(one, starting, False), Placed(two, lone, False)]
    assert nodes_by_version(placed) == {one: [str(ready)], two: [str(lone)]}


def test_of_many_nodes_the_first_are_named_whatever_the_order():
    version = UUID(int=1)
    placed = [Placed(version, UUID(int=number), True) for number in range(100, 120)]
    few = [str(UUID(int=number)) for number in range(100, 100 + MAX_NODES)]
    assert nodes_by_version(placed) == nodes_by_version(reversed(placed)) == {version: few}

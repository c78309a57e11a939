"""Weights and disks, from what an agent tells to what an operator reads."""

import pytest
from rest_framework.test import APIClient

from apps.deployments.models import Replica, ReplicaState
from apps.fleet.models import Node
from apps.fleet.services.nodes import record_accelerators, record_disk
from apps.placement.services.loop import reconcile
from tests.factories.domain import NOW, make_deployment, make_node, make_people, make_version
from workers.agent.hardware.accelerators import Accelerators
from workers.agent.hardware.described_gpus import DescribedGPUs, read_machine
from workers.contracts.telemetry import DiskReport

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

GIB = 1024**3


@pytest.fixture
def operator():
    client = APIClient()
    client.force_authenticate(make_people().operator)
    return client


def machine(name, free_gib, **weights):
    node = make_node(name, inventory={"engines": ["vllm"], "cpu_count": 8})
    record_accelerators(node_id=node.pk, reports=Accelerators(DescribedGPUs(read_machine("2xH100"))).sample())
    tell(node, free_gib, **weights)
    return node


def tell(node, free_gib, **weights):
    weights = {name.replace("_", "/"): size for name, size in weights.items()}
    record_disk(node_id=node.pk, report=DiskReport(free_bytes=int(free_gib * GIB), weights=weights))


def large_version():
    return make_version("v1", engine="vllm", source="acme/large", weight_bytes=30 * GIB)


def previewed(operator, version, count=1):
    body = {"version_id": str(version.pk), "replica_count": count, "requirements": {"memory_gib": 60}}
    return operator.post("/api/v1/placement/preview/", body, format="json").data


def turn():
    reconcile(holder="test", now=NOW)


def test_the_preview_says_which_disk_is_too_small_by_how_much_and_what_would_help(operator):
    machine("n1", 25)
    shown = previewed(operator, large_version())
    assert shown["unplaced_count"] == 1
    assert shown["refusals"][0]["reason"] == (
        "30.0 GiB of weights are to be fetched, 25.0 GiB of its disk is free "
        "(0.0 GiB of that for weights on their way, 1.0 GiB stays free)"
    )
    assert [each["change"] for each in shown["remedies"]] == ["free 6.0 GiB more of the disk of n1"]


def test_weights_that_a_node_says_it_has_need_no_more_and_what_it_said_before_is_forgotten(operator):
    node, version = machine("n1", 5, acme_large=30 * GIB), large_version()
    assert previewed(operator, version)["unplaced_count"] == 0
    tell(node, 5)
    assert previewed(operator, version)["unplaced_count"] == 1
    node.refresh_from_db()
    assert (node.inventory["cpu_count"], node.inventory["weights"]) == (8, {})


def test_a_place_holds_its_disk_until_the_weights_have_come(operator):
    machine("n1", 45)
    version, other = large_version(), make_version("v2", engine="vllm", source="acme/other", weight_bytes=20 * GIB)
    make_deployment(version, requirements={"memory_gib": 60})
    turn()
    replica = Replica.objects.get()
    assert replica.state == ReplicaState.PLACED
    assert "(30.0 GiB of that for weights on their way" in previewed(operator, other)["refusals"][0]["reason"]

    tell(Node.objects.get(), 30)
    Replica.objects.update(state=ReplicaState.FETCHING, progress_ratio=0.5)
    assert "(15.0 GiB of that for weights on their way" in previewed(operator, other)["refusals"][0]["reason"]

    tell(Node.objects.get(), 21)
    Replica.objects.update(state=ReplicaState.STARTING, progress_ratio=None)
    assert previewed(operator, other)["unplaced_count"] == 0


def test_what_a_disk_does_not_hold_is_said_at_the_replica_and_placed_once_there_is_room():
    node = machine("n1", 25)
    make_deployment(large_version(), requirements={"memory_gib": 60})
    turn()
    assert "30.0 GiB of weights are to be fetched" in Replica.objects.get().detail
    tell(node, 31)
    turn()
    assert Replica.objects.get().state == ReplicaState.PLACED


def test_what_a_disk_tells_of_a_node_that_was_removed_is_passed_over():
    node = machine("n1", 25)
    Node.objects.all().delete()
    tell(node, 30)
    assert not Node.objects.exists()


def test_what_a_node_tells_again_takes_no_lock_and_no_commit(django_assert_num_queries):
    node = machine("n1", 25, acme_large=GIB)
    reports = Accelerators(DescribedGPUs(read_machine("2xH100"))).sample()
    with django_assert_num_queries(2) as queries:
        record_accelerators(node_id=node.pk, reports=reports)
        tell(node, 25, acme_large=GIB)
    assert [query["sql"].split()[0] for query in queries] == ["SELECT", "SELECT"]
    tell(node, 25)
    node.refresh_from_db()
    assert node.inventory["weights"] == {}

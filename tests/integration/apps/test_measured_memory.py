"""What engines report corrects what the next plan reckons with, and is shown."""

import pytest

from apps.deployments.models import MemoryMeasurement, Replica
from apps.deployments.selectors import measured_of
from apps.deployments.services.replicas import record_replica_reports
from apps.fleet.models import Accelerator
from apps.fleet.services.nodes import record_accelerators
from apps.placement.services.loop import reconcile
from apps.registry.policies.needs import need_of
from apps.registry.selectors import registered
from tests.factories.domain import NOW, make_deployment, make_node, make_version
from tests.support import model_configs as configs
from workers.agent.hardware.accelerators import Accelerators
from workers.agent.hardware.described_gpus import DescribedGPUs, read_machine
from workers.contracts.telemetry import ReplicaReport

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

GIB = 1024**3


@pytest.fixture
def version():
    node = make_node("g1", inventory={"engines": ["vllm"]})
    record_accelerators(node_id=node.pk, reports=Accelerators(DescribedGPUs(read_machine("2xH100"))).sample())
    version = make_version(engine="vllm", source="org/llama", config=configs.LLAMA3_8B, max_context_tokens=8192)
    make_deployment(version)
    reconcile(holder="test", now=NOW)
    return version


def report(state="ready", **facts):
    row = Replica.objects.get()
    one = ReplicaReport(replica_id=str(row.pk), state=state, **facts)
    record_replica_reports(node_id=row.node_id, reports=[one], now=NOW)


def preview(operator, version):
    body = {"version_id": str(version.pk), "requirements": {"on": "gpu"}}
    return operator.post("/api/v1/placement/preview/", body, format="json").data


def test_a_ready_engines_memory_without_its_cache_goes_before_the_estimate(as_user, people, version):
    operator = as_user(people.operator)
    before = preview(operator, version)
    assert before["memory"]["measured_bytes"] is None
    report("starting", memory_bytes=3 * GIB)
    assert not MemoryMeasurement.objects.exists()
    report(memory_bytes=70 * GIB, kv_capacity_tokens=400_000)
    after = preview(operator, version)
    fixed = 70 * GIB - 400_000 * 128 * 1024
    assert after["memory"]["measured_bytes"] == fixed
    assert after["memory"]["total_bytes"] == fixed + before["memory"]["kv_bytes"]
    assert after["memory"]["estimated_bytes"] == before["memory"]["estimated_bytes"]
    assert after["kv_tokens_in_place"] != before["kv_tokens_in_place"]


def test_the_newest_word_counts_and_there_is_one_for_each_gpu_model(version):
    report(memory_bytes=70 * GIB, kv_capacity_tokens=400_000)
    report(memory_bytes=71 * GIB, kv_capacity_tokens=400_000)
    Accelerator.objects.update(model="H200")
    report(memory_bytes=130 * GIB, kv_capacity_tokens=900_000)
    found = [(row.gpu_model, row.memory_bytes) for row in MemoryMeasurement.objects.all()]
    assert found == [("H100", 71 * GIB), ("H200", 130 * GIB)]


def test_what_was_measured_on_one_gpu_model_does_not_go_for_one_that_has_its_own(as_user, people, version):
    node = make_node("g2", inventory={"engines": ["vllm"]})
    record_accelerators(node_id=node.pk, reports=Accelerators(DescribedGPUs(read_machine("1xL40S"))).sample())
    kv_bytes = 128 * 1024
    report(memory_bytes=20 * GIB + 1000 * kv_bytes, kv_capacity_tokens=1000)
    measure(version, "L40S", 25 * GIB)
    shown = {each["gpu_model"]: each["measured_bytes"] for each in preview(as_user(people.operator), version)["speeds"]}
    assert shown == {"H100": 20 * GIB, "L40S": 25 * GIB}


def test_for_a_gpu_model_that_nobody_has_tried_the_most_that_was_measured_counts(version):
    measure(version, "H100", 20 * GIB)
    measure(version, "A100-80", 22 * GIB)
    fixed = [
        need_of(
            registered(version),
            tensor_parallel=1,
            pipeline_parallel=1,
            max_running_requests=64,
            measured=measured_of(version),
            gpu_model=model,
        ).memory.fixed_bytes
        for model in ("H100", "L40S", "")
    ]
    assert fixed == [20 * GIB, 22 * GIB, 22 * GIB]


def measure(version, gpu_model, fixed_bytes):
    MemoryMeasurement.objects.create(
        version=version, gpu_count=1, gpu_model=gpu_model, memory_bytes=fixed_bytes, kv_tokens=0, measured_at=NOW
    )

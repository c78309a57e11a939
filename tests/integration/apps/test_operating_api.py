"""The REST API of the fleet, placement and lifecycle, as an operator's program uses it."""

from datetime import timedelta

import pytest
from rest_framework.test import APIClient

from apps.audit.models import AuditEntry
from apps.common.actors import SYSTEM
from apps.deployments.models import Replica
from apps.fleet.models import JoinToken, Node, NodeState
from apps.fleet.services.joining import create_join_token
from apps.fleet.services.nodes import mark_lost_nodes, mark_silent_nodes, record_accelerators, record_seen
from apps.placement.services.loop import reconcile
from tests.factories.domain import NOW, make_deployment, make_node, make_people, make_version
from tests.support import model_configs as configs
from workers.agent.hardware.accelerators import Accelerators
from workers.agent.hardware.described_gpus import DescribedGPUs, read_machine
from workers.agent.join import join

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

GIB = 1024**3


@pytest.fixture
def people():
    return make_people()


@pytest.fixture
def operator(people):
    client = APIClient()
    client.force_authenticate(people.operator)
    return client


def machine(name, description, **facts):
    node = make_node(name, inventory={"engines": ["vllm", "fake"]}, **facts)
    record_accelerators(node_id=node.pk, reports=Accelerators(DescribedGPUs(read_machine(description))).sample())
    return node


def turn(at=NOW):
    reconcile(holder="test", now=at)


def gpu_version(label="v1", **facts):
    return make_version(label, engine="vllm", source="meta-llama/Meta-Llama-3-8B", config=configs.LLAMA3_8B, **facts)


def test_a_join_token_lets_one_machine_in_once(operator):
    made = operator.post("/api/v1/join-tokens/", {"labels": {"zone": "a"}}, format="json")
    assert made.status_code == 201
    assert made.data["token"] in made.data["make_line"]
    joining = {"token": made.data["token"], "name": "n9"}
    first = APIClient().post("/api/v1/join/", joining, format="json")
    assert first.status_code == 201
    assert Node.objects.get(pk=first.data["node_id"]).labels == {"zone": "a"}
    second = APIClient().post("/api/v1/join/", joining | {"name": "n10"}, format="json")
    assert (second.status_code, second.data["code"]) == (403, "not_allowed")
    assert made.data["token"] not in str(operator.get("/api/v1/join-tokens/").data)


def test_a_join_token_that_has_expired_or_was_revoked_lets_nobody_in(operator):
    token, text = create_join_token(actor=SYSTEM, now=NOW - timedelta(days=3), lifetime=timedelta(hours=1))
    assert APIClient().post("/api/v1/join/", {"token": text, "name": "n1"}, format="json").status_code == 403
    assert operator.delete(f"/api/v1/join-tokens/{token.pk}/").status_code == 204
    assert not JoinToken.objects.exists()


def test_only_operators_may_touch_the_fleet(people):
    node = make_node()
    for person in (people.owner, people.teammate, people.stranger, people.finance):
        client = APIClient()
        client.force_authenticate(person)
        assert client.post("/api/v1/join-tokens/", {}, format="json").status_code == 403
        assert client.patch(f"/api/v1/nodes/{node.pk}/", {"is_draining": True}, format="json").status_code == 403
        assert client.get("/api/v1/placement/repacking/").status_code == 403


def test_a_node_is_labelled_drained_and_removed(operator):
    node = make_node()
    path = f"/api/v1/nodes/{node.pk}/"
    changed = operator.patch(path, {"labels": {"rack": "r1"}, "is_draining": True}, format="json")
    assert (changed.data["labels"], changed.data["is_draining"]) == ({"rack": "r1"}, True)
    bad = operator.patch(path, {"labels": {"Rack!": "r1"}}, format="json")
    assert (bad.status_code, list(bad.data["fields"])) == (400, ["labels"])
    assert operator.delete(path).status_code == 204
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"node.labelled", "node.drain_asked", "node.removed"} <= actions


def test_a_node_with_replicas_is_not_removed_before_it_is_drained(operator):
    node = make_node()
    make_deployment(make_version())
    turn()
    refused = operator.delete(f"/api/v1/nodes/{node.pk}/")
    assert (refused.status_code, refused.data["code"]) == (409, "conflict")


def test_a_drained_nodes_replicas_go_elsewhere_and_keep_their_place_until_they_have_stopped():
    old = make_node("n1")
    make_deployment(make_version())
    turn()
    old.is_draining = True
    old.save()
    new = make_node("n2")
    turn()
    assert list(Replica.objects.order_by("pk").values_list("node", "is_draining")) == [(old.pk, True), (new.pk, False)]


def test_gpus_are_given_to_who_needs_them_and_the_rest_is_explained():
    machine("g1", "1xH100")
    make_deployment(gpu_version(), replica_count=2)
    turn()
    placed, waiting = Replica.objects.order_by("-node")
    placed, waiting = (placed, waiting) if placed.node else (waiting, placed)
    assert (placed.stages[0]["keys"], placed.is_exclusive) == (["0"], True)
    assert "is held by a replica that does not share it" in waiting.detail


def test_a_plan_is_shown_before_it_is_applied(operator):
    machine("g1", "8xH100")
    machine("g2", "1xL4")
    version = gpu_version(max_context_tokens=8192)
    shown = operator.post(
        "/api/v1/placement/preview/", {"version_id": str(version.pk), "replica_count": 2}, format="json"
    )
    assert shown.status_code == 200
    assert sorted(each["node_names"] for each in shown.data["assignments"]) == [["g1"], ["g2"]]
    assert 16 * GIB < shown.data["memory"]["total_bytes"] < 24 * GIB
    assert {each["gpu_model"] for each in shown.data["speeds"]} == {"H100", "L4"}
    assert not Replica.objects.exists()


def test_what_does_not_fit_says_why_per_gpu_and_what_would_help(operator):
    machine("g1", "2xL4/pcie")
    version = gpu_version()
    body = {"version_id": str(version.pk), "requirements": {"memory_gib": 40, "gpu_models": ["L4"]}}
    shown = operator.post("/api/v1/placement/preview/", body, format="json").data
    assert shown["unplaced_count"] == 1
    assert "40.0 GiB is needed, 24.0 GiB of 24.0 GiB is free" in shown["refusals"][0]["reason"]
    assert any("tensor parallel 2" in each["change"] for each in shown["remedies"])


@pytest.mark.parametrize(
    ("requirements", "words"),
    [({"gpus": 4}, "gpus"), ({"tensor_parallel": 0}, "tensor_parallel"), ({"strategy": "x"}, "strategy")],
)
def test_requirements_that_mean_nothing_are_refused_by_name(operator, requirements, words):
    version = make_version()
    body = {"name": "d", "version_id": str(version.pk), "requirements": requirements}
    for path in ("/api/v1/deployments/", "/api/v1/placement/preview/"):
        refused = operator.post(path, body, format="json")
        assert refused.status_code == 400
        assert words in refused.data["fields"]["requirements"]


@pytest.mark.parametrize(
    ("engine", "arguments", "words"),
    [
        ("vllm", {"extra": ["--no-such-option"]}, "no option '--no-such-option'"),
        ("vllm", {"extra": ["--port", "1"]}, "set by the control plane"),
        ("vllm", {"extra": ["--max-loras", "many"]}, "a whole number"),
        ("vllm", {"extra": ["--kv-cache-dtype", "int2"]}, "one of"),
        ("vllm", {"gpu_memory_utilization": 1.5}, "at most 1"),
        ("vllm", {"tensor_parallel_sise": 2}, "tensor_parallel_size"),
        ("llamacpp", {"slots": "many"}, "slots"),
    ],
)
def test_engine_arguments_are_refused_with_the_engines_own_reason(operator, engine, arguments, words):
    model = operator.post("/api/v1/models/", {"name": "m", "task": "generate"}, format="json").data["id"]
    body = {"label": "v1", "engine": engine, "source": "s", "served_name": "m", "engine_args": arguments}
    refused = operator.post(f"/api/v1/models/{model}/versions/", body, format="json")
    assert refused.status_code == 400
    assert words in refused.data["fields"]["engine_args"]


def test_a_version_keeps_all_that_was_said_of_it(operator):
    model = operator.post("/api/v1/models/", {"name": "m", "task": "generate"}, format="json").data["id"]
    body = {
        "label": "v1", "engine": "vllm", "source": "a/b", "served_name": "m", "revision": "abc",
        "licence": "apache-2.0",
        "dtype": "bfloat16", "quantisation": "fp8", "tags": ["chat"], "config": configs.LLAMA3_8B,
        "lora_adapters": [{"name": "tone", "source": "a/tone"}], "engine_args": {"extra": ["--enable-prefix-caching"]},
        "weight_index": {"metadata": {"total_size": 16_060_522_496}},
    }  # fmt: skip
    made = operator.post(f"/api/v1/models/{model}/versions/", body, format="json")
    assert made.status_code == 201
    kept = ("revision", "licence", "dtype", "quantisation", "tags", "lora_adapters")
    assert {name: made.data[name] for name in kept} == {name: body[name] for name in kept}
    assert made.data["weight_bytes"] == 16_060_522_496


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("gateway_url", ["", "http://gpu-3:8080", "https://10.0.0.7", "http://[::1]:8080"])
def test_a_machine_joins_by_the_printed_line_with_and_without_a_gateway(operator, live_server, tmp_path, gateway_url):
    """As `make agent JOIN=…` sends it."""
    made = operator.post("/api/v1/join-tokens/", {}, format="json").json()
    joined = join(f"{made['token']}@{live_server.url}", tmp_path, name="n9", gateway_url=gateway_url)
    node = Node.objects.get(pk=joined.node_id)
    assert (node.name, node.gateway_url) == ("n9", gateway_url)


@pytest.mark.parametrize("gateway_url", ["gpu-3:8080", "ftp://gpu-3", "http://", "http://a:b", "http://[", 7])
def test_a_gateway_address_that_is_none_is_refused_by_name(operator, gateway_url):
    made = operator.post("/api/v1/nodes/", {"name": "n9", "gateway_url": gateway_url}, format="json")
    assert (made.status_code, list(made.json()["fields"])) == (400, ["gateway_url"])


def test_weights_that_are_said_win_over_those_that_the_index_sums_up(operator):
    model = operator.post("/api/v1/models/", {"name": "m", "task": "generate"}, format="json").data["id"]
    body = {
        "label": "v1", "engine": "vllm", "source": "s", "served_name": "m", "weight_bytes": 5,
        "weight_index": {"metadata": {"total_size": 7}},
    }  # fmt: skip
    made = operator.post(f"/api/v1/models/{model}/versions/", body, format="json")
    assert (made.status_code, made.data["weight_bytes"]) == (201, 5)


@pytest.mark.parametrize("total", [10**300, 1e300, -1, "7", None, [7]])
def test_no_index_of_weights_is_a_failure(operator, total):
    model = operator.post("/api/v1/models/", {"name": "m", "task": "generate"}, format="json").data["id"]
    index = {"metadata": {"total_size": total}}
    body = {"label": "v1", "engine": "vllm", "source": "s", "served_name": "m", "weight_index": index}
    assert operator.post(f"/api/v1/models/{model}/versions/", body, format="json").status_code in {201, 400}


@pytest.mark.parametrize("value", [10**300, -1, 0, 1e300, "8", None, [], {}, True])
@pytest.mark.parametrize("name", sorted(configs.LLAMA3_8B))
def test_no_config_is_a_failure(operator, name, value):
    model = operator.post("/api/v1/models/", {"name": "m", "task": "generate"}, format="json").data["id"]
    body = {
        "label": "v1",
        "engine": "vllm",
        "source": "s",
        "served_name": "m",
        "config": {**configs.LLAMA3_8B, name: value},
    }
    assert operator.post(f"/api/v1/models/{model}/versions/", body, format="json").status_code in {201, 400}


def test_a_config_that_cannot_be_read_is_refused(operator):
    model = operator.post("/api/v1/models/", {"name": "m", "task": "generate"}, format="json").data["id"]
    body = {"label": "v1", "engine": "vllm", "source": "s", "served_name": "m", "config": {"model_type": "llama"}}
    refused = operator.post(f"/api/v1/models/{model}/versions/", body, format="json")
    assert (refused.status_code, list(refused.data["fields"])) == (400, ["config"])


def test_one_silent_node_loses_its_replicas_when_its_lease_is_over_and_has_them_again_when_it_is_back():
    late = NOW + timedelta(seconds=100)
    silent, other = make_node("n1"), make_node("n2", is_cordoned=True)
    make_deployment(make_version())
    turn()
    record_seen(node_ids=[other.pk], now=late)
    mark_silent_nodes(now=late)
    assert mark_lost_nodes(now=late) == [silent.pk]
    turn(late)
    assert sorted(Replica.objects.values_list("state", flat=True)) == ["pending", "unknown"]
    record_seen(node_ids=[silent.pk], now=late)
    turn(late)
    assert Replica.objects.get().node == silent


def test_when_all_are_silent_nothing_is_placed_anew():
    late = NOW + timedelta(hours=1)
    for number in range(5):
        make_node(f"n{number}")
    make_deployment(make_version())
    turn()
    mark_silent_nodes(now=late)
    assert mark_lost_nodes(now=late) == []
    turn(late)
    assert Replica.objects.get().state == "unknown"
    assert set(Node.objects.values_list("state", flat=True)) == {NodeState.OFFLINE}


def test_a_replica_without_a_place_for_long_raises_an_alarm(operator):
    deployment = make_deployment(make_version())
    turn()
    turn(NOW + timedelta(minutes=6))
    row = operator.get(f"/api/v1/deployments/{deployment.pk}/replicas/").data["results"][0]
    assert row["alarm"].startswith("no place was found for it")
    events = operator.get(f"/api/v1/replicas/{row['id']}/events/").data["results"]
    assert events[0]["detail"] == f"{row['alarm']}: {row['detail']}"


def test_a_deployment_is_deleted_when_nothing_of_it_is_left(operator):
    deployment = make_deployment(make_version(), replica_count=1)
    path = f"/api/v1/deployments/{deployment.pk}/"
    assert operator.delete(path).status_code == 409
    assert operator.patch(path, {"replica_count": 0}, format="json").status_code == 200
    turn()
    assert operator.delete(path).status_code == 204

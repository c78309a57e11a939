"""A plan is seen before it is made; machines come and go by the console."""

import pytest

from apps.deployments.models import Deployment, Replica
from apps.fleet.models import Accelerator, JoinToken, Node
from apps.fleet.services.nodes import record_accelerators
from apps.placement.services.loop import reconcile
from tests.factories.domain import NOW, make_deployment, make_node, make_people, make_replica, make_version
from tests.support import model_configs as configs
from workers.agent.hardware.accelerators import Accelerators
from workers.agent.hardware.described_gpus import DescribedGPUs, read_machine

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


@pytest.fixture
def people():
    return make_people()


@pytest.fixture
def operator(client, people):
    client.force_login(people.operator)
    return client


@pytest.fixture
def machine():
    node = make_node("g1", inventory={"engines": ["vllm"]})
    record_accelerators(node_id=node.pk, reports=Accelerators(DescribedGPUs(read_machine("2xL4"))).sample())
    return node


def version():
    return make_version(engine="vllm", source="meta-llama/Meta-Llama-3-8B", config=configs.LLAMA3_8B)


def text(response):
    return response.content.decode()


def test_a_version_shows_its_memory_and_its_plan(operator, machine):
    shown = text(operator.get(f"/models/versions/{version().pk}/"))
    assert "reckoned from its config" in shown
    assert "g1" in shown
    assert "On L4" in shown


@pytest.mark.parametrize(("kind", "key", "held"), [("cpu", "cpu0", "cpu"), ("gpu", "GPU-1", "GPU-1")])
def test_an_accelerator_shows_the_engines_on_it_and_none_of_another_nodes(operator, kind, key, held):
    here, there = make_node("here"), make_node("there")
    deployment = make_deployment(make_version())
    for node in (here, there):
        stages = [{"node_id": str(node.pk), "keys": [held]}]
        make_replica(deployment, node=node, port=9000, stages=stages)
    accelerator = Accelerator.objects.create(node=here, index=0, key=key, kind=kind, name="its name")
    shown = text(operator.get(f"/accelerators/{accelerator.pk}/"))
    ours, theirs = (Replica.objects.get(node=node).pk for node in (here, there))
    assert str(ours) in shown
    assert str(theirs) not in shown


def test_what_does_not_fit_shows_why_and_what_would_help(operator, machine):
    shown = text(
        operator.get(f"/models/versions/{version().pk}/?replica_count=3&max_running_requests=64&on=gpu&strategy=spread")
    )
    assert "1 without a place" in shown
    assert "is held by a replica that does not share it" in shown
    assert "share GPUs with other replicas" not in shown


def test_a_plan_that_makes_no_sense_is_answered_beside_its_field(operator, machine):
    shown = operator.get(
        f"/models/versions/{version().pk}/?replica_count=0&max_running_requests=64&on=gpu&strategy=spread"
    )
    assert shown.status_code == 200
    assert "field-error" in text(shown)


def test_what_was_planned_is_deployed(operator, machine):
    form = {"name": "eight", "replica_count": 1, "max_running_requests": 8, "on": "gpu", "strategy": "pack"}
    made = operator.post(f"/models/versions/{version().pk}/deploy/", form)
    deployment = Deployment.objects.get(name="eight")
    assert made.url == f"/deployments/{deployment.pk}/"
    assert deployment.requirements == {"on": "gpu", "strategy": "pack"}


def test_the_fleet_shows_its_gpus_and_who_is_on_them(operator, machine):
    make_deployment(version())
    reconcile(holder="test", now=NOW)
    shown = text(operator.get("/fleet/"))
    assert "GPU map" in shown
    assert "demo-chat-v1" in shown


def test_a_join_token_is_shown_once_with_its_lines(operator):
    shown = text(operator.post("/fleet/join/"))
    assert "make agent JOIN=tyj-" in shown
    assert "[Service]" in shown
    assert "-v tokenyard-agent:/state tokenyard:local" in shown
    assert JoinToken.objects.count() == 1


def test_a_node_is_labelled_drained_and_removed(operator, machine):
    operator.post(f"/fleet/{machine.pk}/labels/", {"labels": "zone=a rack=r1"})
    operator.post(f"/fleet/{machine.pk}/drain/", {"is_draining": "1"})
    machine.refresh_from_db()
    assert (machine.labels, machine.is_draining) == ({"zone": "a", "rack": "r1"}, True)
    operator.post(f"/fleet/{machine.pk}/remove/")
    assert not Node.objects.exists()


def test_a_deployment_says_what_its_replicas_wait_for(operator, machine):
    deployment = make_deployment(version(), replica_count=3)
    reconcile(holder="test", now=NOW)
    shown = text(operator.get(f"/deployments/{deployment.pk}/"))
    assert "is held by a replica that does not share it" in shown
    assert operator.get(f"/deployments/{deployment.pk}/logs/").status_code == 200


def test_requirements_are_written_as_people_write_them(operator, machine):
    asked = {"on": "gpu", "labels": {"zone": "a"}, "gpu_models": ["H100", "H200"]}
    made = make_deployment(version(), requirements=asked)
    page = operator.get(f"/deployments/{made.pk}/").content.decode()
    assert all(text in page for text in ("zone=a", "H100, H200", "gpu models"))
    assert "{&#x27;" not in page


def test_a_replica_is_drained_by_hand(operator, machine):
    make_deployment(version())
    reconcile(holder="test", now=NOW)
    replica = Replica.objects.get()
    act, page = f"/replicas/{replica.pk}/act/", f"/deployments/{replica.deployment_id}/"
    assert f'action="{act}"' in text(operator.get(page))
    for asked, is_draining, button in (
        ("drain", True, "Keep"),
        ("keep", False, "Drain"),
        ("restart", False, "Restart"),
    ):
        operator.post(act, {"act": asked})
        replica.refresh_from_db()
        assert replica.is_draining is is_draining
        assert f">{button}</button>" in text(operator.get(page))
    operator.post(act, {"act": "keep"})
    assert "Nobody has asked for this drain" in text(operator.get(page))


def test_a_replica_that_failed_says_why_beside_its_state(operator, machine):
    make_deployment(version())
    reconcile(holder="test", now=NOW)
    Replica.objects.update(state="failed", detail="ended with status 1: no such option")
    assert "ended with status 1: no such option" in text(operator.get(f"/deployments/{Deployment.objects.get().pk}/"))


def test_a_stranger_sees_none_of_it(client, people, machine):
    client.force_login(people.stranger)
    for path in (f"/models/versions/{version().pk}/", "/fleet/"):
        assert client.get(path).status_code == 403
    assert client.post("/fleet/join/").status_code == 403


def test_another_version_is_rolled_out_from_the_deployments_page(client):
    client.force_login(make_people().operator)
    deployment, other = make_deployment(make_version("v1")), make_version("v2")
    stranger = make_version("v1", model="another-model")
    page = f"/deployments/{deployment.pk}/"
    assert f'<option value="{other.pk}">demo-chat:v2</option>' in client.get(page).content.decode()
    for version_id in (stranger.pk, "nonsense", ""):
        assert client.post(f"{page}rollout/", {"act": "version", "version_id": version_id})["Location"] == page
    assert Deployment.objects.get().version_id == deployment.version_id
    client.post(f"{page}rollout/", {"act": "version", "version_id": other.pk})
    assert Deployment.objects.get().version == other
    assert "demo-chat-v1 rolls out the other version" in client.get(page).content.decode()

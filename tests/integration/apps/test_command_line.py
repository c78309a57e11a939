"""The command line against a real web process."""

import json

import pytest
from click.testing import CliRunner
from django.db import connection

from apps.common.actors import SYSTEM
from apps.deployments.models import Deployment
from apps.deployments.services.deployments import Change, change_deployment
from apps.fleet.models import Node
from apps.tenants.services import create_service_token
from tests.factories.domain import NOW, make_deployment, make_node, make_people, make_version
from tests.support.controlplane import running_web
from workers.cli.main import cli

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]

YARD = """
kind: Deployment
name: chat
version: demo-chat:v1
replica_count: 2
"""


@pytest.fixture(scope="module")
def web(postgres, django_db_setup, valkey):
    url = postgres.url(connection.settings_dict["NAME"])
    with running_web(
        {"DJANGO_SETTINGS_MODULE": "controlplane.settings.test", "TOKENYARD_DATABASE_URL": url}
    ) as address:
        yield f"http://{address}"


@pytest.fixture
def people(transactional_db):
    return make_people()


@pytest.fixture
def run(web, people, tmp_path):
    """`run("get", "nodes")` as an operator; the result has `exit_code` and `output`."""
    token = create_service_token(actor=SYSTEM, owner=people.operator, name="cli", now=NOW)[1]
    environ = {"TOKENYARD_URL": web, "TOKENYARD_TOKEN": token, "TOKENYARD_CONFIG": str(tmp_path / "config.json")}

    def invoke(*words, input=None, **changes):  # noqa: A002 - click's name of it
        return CliRunner(env=environ | changes).invoke(cli, words, input=input)

    return invoke


def test_things_are_listed_filtered_and_told_in_every_form(run):
    make_node("n1", labels={"zone": "a"})
    node = make_node("n2", state="offline")
    assert run("get", "nodes").output.splitlines()[0].startswith("NAME")
    assert "n2" not in run("get", "nodes", "-l", "zone=a").output
    assert run("get", "nodes", "-f", "state=offline", "-o", "name").output == "nodes/n2\n"
    assert json.loads(run("get", "node", "n2", "-o", "json").output)["id"] == str(node.pk)
    assert "is_cordoned: false" in run("get", "node/n2", "-o", "yaml").output


def test_several_kinds_are_listed_together_and_a_name_does_where_only_one_kind_can_be_meant(run):
    make_node("n1")
    make_deployment(make_version())
    assert run("get", "node/n1", "dep/demo-chat-v1", "-o", "name").output == "nodes/n1\ndeployments/demo-chat-v1\n"
    assert list(json.loads(run("get", "nodes,deployments", "-o", "json").output)) == ["nodes", "deployments"]
    assert run("get", "nodes", "n1", "-l", "zone=a").exit_code == 7
    assert run("get", "nodes", "-l", "zone!=a").exit_code == 7
    assert "demo-chat-v1: 1 → 0" in run("scale", "demo-chat-v1", "-r", "0", "--dry-run").output
    assert "nodes/n1 drains" in run("drain", "n1", "--dry-run").output
    assert "among the nodes and replicas" in run("drain", "n9").output
    assert run("events", "-d", "nope").exit_code == run("logs", "nope").exit_code == 3
    assert run("rollout", "history", "demo-chat-v1").output.splitlines()[1].split()[:2] == ["1", "demo-chat:v1"]


def test_who_misspells_a_name_or_a_kind_is_told_what_there_is(run):
    make_node("berlin-7")
    assert "did you mean deployments?" in run("get", "deploymnts").output
    assert "did you mean berlin-7?" in run("drain", "berlin-8").output
    assert "did you mean" not in run("drain", "x").output


def test_what_would_make_a_replica_fit_and_why_it_does_not_are_described(run):
    make_node("n1", is_cordoned=True)
    make_deployment(make_version())
    described = run("describe", "deployment", "demo-chat-v1").output
    assert "would fit: uncordon n1 (n1)" in described
    assert "n1: is cordoned" in described


def test_each_kind_of_failure_has_its_exit_code(run, people):
    assert run("get", "nodes", "nowhere").exit_code == 3
    assert run("get", "spaceships").exit_code == 7
    assert run("get", "nodes", "-f", "stat=online").exit_code == 7
    assert run("get").exit_code == 2
    assert run("get", "nodes", TOKENYARD_TOKEN="tys-wrong").exit_code == 4
    assert run("get", "nodes", TOKENYARD_URL="http://127.0.0.1:1").exit_code == 6
    token = create_service_token(actor=SYSTEM, owner=people.viewer, name="cli", now=NOW)[1]
    refused = run("get", "nodes", TOKENYARD_TOKEN=token)
    assert (refused.exit_code, "role does not allow" in refused.output) == (4, True)


def test_apply_shows_the_difference_asks_and_does_it_once(run, tmp_path):
    make_version()
    file = tmp_path / "yard.yaml"
    file.write_text(YARD)
    shown = run("apply", "-f", str(file), "--dry-run")
    assert "+ Deployment chat" in shown.output
    assert "replica_count: – → 2" in shown.output
    assert run("apply", "-f", str(file)).exit_code == 7  # there is nobody to ask
    assert not Deployment.objects.exists()
    assert "1 new" in run("apply", "-f", "-", "--yes", input=YARD).output
    assert "nothing to do" in run("apply", "-f", str(tmp_path), "--yes").output


def test_a_problem_of_a_document_is_named_by_its_field(run):
    refused = run("apply", "-f", "-", "--yes", input="kind: Deployment\nname: chat\nreplicas: 2\n")
    assert (refused.exit_code, "documents[0].replicas" in refused.output) == (7, True)


def test_a_deployment_is_scaled_and_a_node_cordoned_drained_and_labelled(run):
    deployment, node = make_deployment(make_version()), make_node("n1")
    assert run("scale", "deployment/demo-chat-v1", "--replicas", "3").exit_code == 0
    assert run("scale", "deployment/demo-chat-v1", "--replicas", "9", "--current", "1").exit_code == 5
    assert run("scale", "deployment/demo-chat-v1", "--replicas", "0", "--dry-run").exit_code == 0
    deployment.refresh_from_db()
    assert deployment.replica_count == 3
    assert run("cordon", "n1").exit_code == run("drain", "node", "n1", "--wait", "10").exit_code == 0
    assert run("label", "n1", "zone=a", "tier=x").exit_code == run("label", "n1", "tier-").exit_code == 0
    node.refresh_from_db()
    assert (node.is_cordoned, node.is_draining, node.labels) == (True, True, {"zone": "a"})
    assert run("delete", "node/n1", "--yes").exit_code == 0
    assert not Node.objects.exists()


def test_a_rollout_is_looked_at_paused_and_taken_back(run, people):
    deployment = make_deployment(make_version("v1"))
    change_deployment(actor=SYSTEM, deployment=deployment, change=Change(version=make_version("v2")), now=NOW)
    assert run("rollout", "pause", "deployment/demo-chat-v1").output == (
        "deployments/demo-chat-v1: the rollout is paused\n"
    )
    assert Deployment.objects.get().is_rollout_paused
    shown = run("rollout", "status", "deployment/demo-chat-v1").output
    assert "newest revision 0 of 1 ready" in shown
    assert ["2", "demo-chat:v2"] in [line.split()[:2] for line in shown.splitlines()]
    assert run("rollout", "status", "demo-chat-v1", "--wait", "0").exit_code == 8
    assert "goes on" in run("rollout", "resume", "deployment/demo-chat-v1").output
    assert "goes back to revision 1" in run("rollout", "undo", "deployment", "demo-chat-v1", "--to", "1").output
    assert str(Deployment.objects.get().version) == "demo-chat:v1"
    assert run("rollout", "undo", "deployment/demo-chat-v1", "--to", "9").exit_code == 3
    assert run("rollout", "pause", "nodes/n1").exit_code == 7


def test_everything_about_one_thing_is_in_one_place(run):
    make_deployment(make_version())
    make_node("n1")
    described = run("describe", "deployment/demo-chat-v1")
    assert described.exit_code == 0, described.output
    assert all(heading in described.output for heading in ("Replicas", "One more replica", "Events", "Audit"))
    assert "Accelerators" in run("describe", "node/n1").output


def test_who_logs_in_is_remembered_and_can_be_forgotten(run, web, people, tmp_path):
    token = create_service_token(actor=SYSTEM, owner=people.operator, name="kept", now=NOW)[1]
    bare = {"TOKENYARD_URL": "", "TOKENYARD_TOKEN": ""}
    logged_in = run("--url", web, "login", input=f"{token}\n", **bare)
    assert (logged_in.exit_code, "logged in" in logged_in.output, token in logged_in.output) == (0, True, False)
    assert run("get", "nodes", **bare).exit_code == 0
    assert run("--url", web, "login", input="tys-wrong\n", **bare).exit_code == 4
    assert run("logout", **bare).exit_code == 0
    assert run("get", "nodes", **bare).exit_code == 4


def test_a_machine_can_be_let_in(run):
    line = run("join-token", "--label", "zone=a").output
    assert line.startswith("make agent JOIN=tyj-")


def test_shells_are_told_how_to_complete(run):
    assert "_TOKENYARD_COMPLETE" in run("completion", "bash").output
    completed = run(_TOKENYARD_COMPLETE="bash_complete", COMP_WORDS="tokenyard get no", COMP_CWORD="2")
    assert completed.exit_code in {0, 2}


def test_live_values_that_are_unknown_are_no_failure(run):
    assert run("top").exit_code == run("top", "replicas").exit_code == run("events").exit_code == 0


def test_a_problem_of_apply_is_told_with_its_file_and_line(run, tmp_path):
    file = tmp_path / "yard.yaml"
    file.write_text(f"{YARD}---\nkind: Deployment\nname: chat\nreplicas: 2\n")
    refused = run("apply", "-f", str(file), "--yes")
    line = file.read_text().split("\n").index("replicas: 2") + 1
    assert f"{file} line {line}: documents[" in refused.output
    file.write_text(f"{YARD}---\nkind: Model\n name: x\n")
    assert f"{file} line {file.read_text().count(chr(10))}: not YAML" in run("apply", "-f", str(file), "--yes").output

"""`POST /api/v1/apply`: documents that say how things should be."""

import pytest
from rest_framework.test import APIClient

from apps.audit.models import AuditEntry
from apps.common.actors import SYSTEM
from apps.deployments.models import Deployment, Replica
from apps.limits.models import Limit
from apps.quotas.models import TenantPolicy
from apps.registry.models import Model, ModelVersion
from apps.routing.models import Route
from apps.tenants.models import Tenant
from apps.tenants.services import create_service_token, remove_tenant
from apps.usage.models import PriceEntry
from tests.factories.domain import NOW, make_node, make_people

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

YARD = """
kind: ServiceClass
name: foremost
rank: 7
---
kind: SLOProfile
name: instant
ttft_ms: 100
tpot_ms: 10
---
kind: Route
name: chat
targets: [{version: "llama:v1", weight: 100}]
---
kind: Deployment
name: llama
version: llama:v1
replica_count: 2
requirements: {on: cpu}
---
kind: Version
model: llama
label: v1
engine: fake
source: fake
served_name: llama
tags: [small]
---
kind: Model
name: llama
task: generate
---
kind: Tenant
name: acme/search
weight: 2.5
---
kind: Tenant
name: acme
service_class: first
slo_profile: quick
---
kind: Limit
tenant: acme
limit: cost_per_month
amount: 100
---
kind: Price
version: llama:v1
input_pico_usd: 150000
cached_input_pico_usd: 75000
output_pico_usd: 600000
"""


@pytest.fixture
def people():
    return make_people()


@pytest.fixture
def operator(people):
    client = APIClient()
    client.force_login(people.operator)
    return client


def apply(client, text, query=""):
    return client.generic("POST", f"/api/v1/apply?{query}", text, content_type="application/yaml")


def actions(answer):
    return {(each["kind"], each["title"]): each["action"] for each in answer.json()["results"]}


@pytest.mark.parametrize("text", ["", "---\n", "null\n", "# a comment"])
def test_an_empty_file_is_not_taken_for_the_wish_to_have_nothing(operator, text):
    apply(operator, YARD)
    refused = apply(operator, text, "prune=1")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")
    assert Deployment.objects.exists()
    assert apply(operator, "documents: []", "set=other&prune=1").status_code == 200


def test_things_are_made_in_the_order_of_their_dependencies(operator):
    applied = apply(operator, YARD)
    assert applied.status_code == 200, applied.json()
    assert set(actions(applied).values()) == {"create"}
    deployment = Deployment.objects.get()
    assert (deployment.replica_count, str(deployment.version), deployment.requirements) == (
        2,
        "llama:v1",
        {"on": "cpu"},
    )
    assert Route.objects.get().targets.get().weight == 100
    assert TenantPolicy.objects.get(tenant__name="search").weight == 2.5
    assert (Limit.objects.get().amount, PriceEntry.objects.get().output_pico_usd) == (100 * 10**9, 600_000)


def test_a_removed_tenant_is_not_taken_for_the_one_that_has_its_name_now(operator):
    apply(operator, YARD)
    removed = Tenant.objects.get(name="search")
    remove_tenant(actor=SYSTEM, tenant=removed, now=NOW)
    again = apply(operator, YARD)
    assert again.status_code == 200, again.json()
    assert actions(again)["Tenant", "acme/search"] == "create"
    assert not TenantPolicy.objects.filter(tenant=removed).exists()
    assert set(actions(apply(operator, YARD)).values()) == {"keep"}


def test_the_same_again_changes_nothing(operator):
    apply(operator, YARD)
    before = AuditEntry.objects.count()
    again = apply(operator, YARD)
    assert (set(actions(again).values()), AuditEntry.objects.count()) == ({"keep"}, before)


def test_a_dry_run_shows_each_difference_and_its_plan_is_what_is_done(operator):
    apply(operator, YARD)
    wanted = YARD.replace("replica_count: 2", "replica_count: 5")
    tried = apply(operator, wanted, "dry_run=1").json()
    changed = next(each for each in tried["results"] if each["kind"] == "Deployment")
    assert (changed["action"], changed["diff"]) == ("change", [{"field": "replica_count", "from": 2, "to": 5}])
    assert (tried["dry_run"], Deployment.objects.get().replica_count) == (True, 2)
    assert apply(operator, wanted, f"plan={tried['plan']}").status_code == 200
    late = apply(operator, wanted, f"plan={tried['plan']}")
    assert (late.status_code, late.json()["code"]) == (412, "plan_changed")


def test_a_dry_run_makes_nothing_of_nothing(operator):
    tried = apply(operator, YARD, "dry_run=1")
    assert set(actions(tried).values()) == {"create"}
    assert not Model.objects.exists()
    assert apply(operator, YARD, f"plan={tried.json()['plan']}").status_code == 200


def test_all_is_done_or_nothing(operator):
    refused = apply(operator, YARD + "---\nkind: Deployment\nname: other\nversion: llama:v9\n")
    assert refused.status_code == 400
    assert list(refused.json()["fields"]) == ["documents[10].version"]
    assert not Model.objects.exists()


def test_what_is_refused_while_it_is_done_is_named_at_once_too(operator):
    apply(operator, YARD, "set=prod")
    text = """
kind: Version
model: llama
label: v1
dtype: float16
---
kind: Model
name: new
task: generate
---
kind: Price
version: llama:v1
output_pico_usd: 500000
---
kind: Deployment
name: other
version: llama:v9
"""
    refused = apply(operator, text, "set=prod")
    assert refused.status_code == 400
    fields = refused.json()["fields"]
    assert set(fields) >= {"documents[0].dtype", "documents[3].version"}
    assert refused.json()["detail"].startswith(f"{len({name.split('.')[0] for name in fields})} documents are refused")
    assert not Model.objects.filter(name="new").exists()


def test_every_problem_of_every_document_is_named_at_once(operator):
    text = """
kind: Model
name: "no slug"
task: sing
---
kind: Deployment
name: d
replicas: 2
---
kind: Spaceship
---
[1, 2]
---
kind: Limit
limit: cost_per_month
amount: -1
---
kind: Model
name: twice
task: generate
---
kind: Model
name: twice
task: generate
"""
    refused = apply(operator, text)
    assert refused.status_code == 400
    assert set(refused.json()["fields"]) == {
        "documents[0].name", "documents[0].task", "documents[1].replicas", "documents[2].kind", "documents[3].kind",
        "documents[4].kind", "documents[5].amount", "documents[7].kind",
    }  # fmt: skip


def test_what_is_left_out_stays_as_it_is(operator):
    apply(operator, YARD)
    apply(operator, "kind: Deployment\nname: llama\nreplica_count: 3\n")
    deployment = Deployment.objects.get()
    assert (deployment.replica_count, deployment.requirements) == (3, {"on": "cpu"})


def test_what_engines_load_does_not_change_under_its_name(operator):
    apply(operator, YARD)
    refused = apply(operator, "kind: Version\nmodel: llama\nlabel: v1\ndtype: float16\n")
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["documents[0].dtype"])
    described = apply(operator, "kind: Version\nmodel: llama\nlabel: v1\ntags: [small, old]\n")
    assert described.status_code == 200
    assert ModelVersion.objects.get().tags == ["small", "old"]


def test_what_a_set_owns_goes_when_its_document_is_gone_and_pruning_was_asked_for(operator):
    apply(operator, YARD, "set=prod")
    route = "kind: Route\nname: extra\ntargets: [{version: 'llama:v1', weight: 1}]\n"
    apply(operator, route, "set=lab")
    rest = "\n---\n".join(part for part in YARD.split("---") if "kind: Route" not in part and "kind: Limit" not in part)
    assert set(actions(apply(operator, rest, "set=prod")).values()) == {"keep"}
    tried = apply(operator, rest, "set=prod&prune=1&dry_run=1")
    assert actions(tried)["Route", "chat"] == "remove"
    assert Route.objects.count() == 2
    apply(operator, rest, "set=prod&prune=1")
    assert list(Route.objects.values_list("public_name", flat=True)) == ["extra"]
    assert not Limit.objects.exists()


def test_a_deployment_that_still_runs_is_stopped_before_it_goes(operator):
    apply(operator, YARD, "set=prod")
    deployment = Deployment.objects.get()
    replica = Replica.objects.create(
        deployment=deployment, revision=deployment.revisions.get(), node=make_node(), port=9000, state="ready",
        created_at=NOW, state_changed_at=NOW,
    )  # fmt: skip
    rest = "\n---\n".join(part for part in YARD.split("---") if "kind: Deployment" not in part)
    pruned = apply(operator, rest, "set=prod&prune=1").json()["results"][-1]
    assert (pruned["action"], "stop" in pruned["note"]) == ("change", True)
    assert Deployment.objects.get().replica_count == 0
    replica.delete()
    assert actions(apply(operator, rest, "set=prod&prune=1"))["Deployment", "llama"] == "remove"
    assert not Deployment.objects.exists()


def test_a_thing_of_another_set_is_left_alone_unless_it_is_taken_over(operator):
    model = "kind: Model\nname: llama\ntask: generate\n"
    apply(operator, model, "set=prod")
    refused = apply(operator, model, "set=lab")
    assert (refused.status_code, list(refused.json()["fields"])) == (409, ["documents[0].kind"])
    assert apply(operator, model, "set=lab&take_over=1").json()["results"][0]["owner_before"] == "prod"
    assert actions(apply(operator, "kind: Model\nname: b\ntask: embed\n", "set=prod&prune=1")) == {
        ("Model", "b"): "create"
    }


def test_a_line_of_the_price_book_is_added_and_never_changed(operator):
    apply(operator, YARD)
    cheaper = "kind: Price\nversion: llama:v1\noutput_pico_usd: 500000\n"
    assert actions(apply(operator, cheaper)) == {("Price", "version llama:v1"): "change"}
    assert sorted(PriceEntry.objects.values_list("output_pico_usd", flat=True)) == [500_000, 600_000]
    assert set(actions(apply(operator, cheaper)).values()) == {"keep"}


def test_json_says_the_same(operator):
    body = {"documents": [{"kind": "Model", "name": "llama", "task": "generate"}]}
    assert operator.post("/api/v1/apply/", body, format="json").json()["results"][0]["action"] == "create"
    again = operator.post("/api/v1/apply", body["documents"], format="json")
    assert again.json()["results"][0]["action"] == "keep"


@pytest.mark.parametrize("text", ["a: *b", "kind: [", "\x00", "a: &a [*a]"])
def test_what_is_no_yaml_is_refused(operator, text):
    refused = apply(operator, text)
    assert (refused.status_code, refused["Content-Type"]) == (400, "application/problem+json")


def test_only_who_may_change_a_thing_may_declare_it(people):
    for person in (people.owner, people.teammate, people.stranger):
        client = APIClient()
        client.force_login(person)
        assert apply(client, YARD).status_code == 403
    _, text = create_service_token(actor=SYSTEM, owner=people.operator, name="ci", scopes=["platform:write"], now=NOW)
    scoped = APIClient(headers={"Authorization": f"Bearer {text}"})
    assert apply(scoped, YARD).status_code == 403
    assert apply(scoped, "kind: Model\nname: llama\ntask: generate\n").status_code == 200
    assert not Tenant.objects.filter(name="acme").exists()

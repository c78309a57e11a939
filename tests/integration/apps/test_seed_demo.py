import json
from io import StringIO

import pytest
from django.core.management import call_command

from apps.common.credentials import sha256_of
from apps.deployments.models import Deployment
from apps.fleet.models import Node
from apps.registry.models import ModelVersion
from apps.routing.models import Route, RouteTarget
from apps.tenants.models import APIKey, Tenant, User
from apps.usage.models import AcceleratorPrice, Budget

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "seed" / "demo.json"


def seed(file, engine="fake"):
    call_command("seed_demo", engine=engine, json=file, stdout=StringIO())
    return json.loads(file.read_bytes())


def test_the_demo_is_the_issues(file):
    demo = seed(file)
    assert sorted(demo["tenants"]) == ["batch", "gold", "standard"]
    assert (demo["model"], demo["embedding_model"]) == ("demo-chat", "demo-embed")
    weights = RouteTarget.objects.filter(route__public_name="demo-chat").values_list("version__label", "weight")
    assert sorted(weights) == [("v1", 90), ("v2", 10)]
    assert Deployment.objects.count() == 3
    assert [tenant.policy.service_class.rank for tenant in Tenant.objects.order_by("name")] == [2, 0, 1]


def test_what_the_file_says_works_and_only_its_owner_may_read_it(file):
    demo = seed(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert APIKey.objects.filter(key_sha256=sha256_of(demo["tenants"]["gold"]["api_key"])).exists()
    assert Node.objects.get().token_sha256 == sha256_of(demo["agent_token"])
    for login in demo["logins"]:
        assert User.objects.get(username=login["username"]).check_password(login["password"])


def test_seeding_again_changes_nothing(file):
    first = seed(file)
    keys = APIKey.objects.count()
    assert seed(file) == first
    assert APIKey.objects.count() == keys


def test_what_people_changed_is_kept(file):
    seed(file)
    route = Route.objects.get(public_name="demo-chat")
    RouteTarget.objects.filter(route=route).update(weight=50)
    Deployment.objects.update(replica_count=2)
    seed(file)
    assert set(RouteTarget.objects.filter(route=route).values_list("weight", flat=True)) == {50}
    assert set(Deployment.objects.values_list("replica_count", flat=True)) == {2}


def test_a_lost_file_gives_new_secrets_that_work_and_ends_the_old_keys(file):
    lost = seed(file)
    file.unlink()
    demo = seed(file)
    assert demo["node_id"] == lost["node_id"]
    assert demo["agent_token"] != lost["agent_token"]
    old, new = (sha256_of(one["tenants"]["gold"]["api_key"]) for one in (lost, demo))
    assert APIKey.objects.get(key_sha256=old).revoked_at is not None
    assert APIKey.objects.get(key_sha256=new).revoked_at is None
    assert User.objects.get(username="operator").check_password(
        next(one for one in demo["logins"] if one["username"] == "operator")["password"]
    )


def test_another_engine_takes_over_the_versions(file):
    seed(file, "fake")
    seed(file, "llamacpp")
    versions = ModelVersion.objects.filter(model__name="demo-chat").order_by("label")
    assert [(v.engine, v.source, v.max_context_tokens) for v in versions] == [
        ("llamacpp", "smollm2-135m-instruct", 2048),
        ("llamacpp", "smollm2-135m-instruct", 4096),
    ]


def test_the_demo_has_accelerator_prices_with_their_source_and_one_budget_and_keeps_them(file):
    seed(file)
    Budget.objects.update(name="mine")
    seed(file)
    assert [budget.name for budget in Budget.objects.all()] == ["mine"]
    assert all(line.source for line in AcceleratorPrice.objects.all())
    assert AcceleratorPrice.objects.count() == 10

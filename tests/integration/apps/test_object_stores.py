"""Versions whose weights lie in an object store, read from a real S3-speaking server."""

import json

import msgspec
import pytest
from django.urls import reverse
from rest_framework.test import APIClient

from apps.audit.models import AuditEntry
from apps.deployments.models import NodeDesired
from apps.placement.services.loop import reconcile
from apps.registry.models import ModelVersion
from tests.factories.domain import NOW, make_deployment, make_node, make_people
from tests.support import model_configs as configs
from tests.support.object_store import BUCKET, running_store
from workers.contracts.desired import DesiredState
from workers.contracts.stores import StoreAddress, is_digest

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

SOURCE = f"s3://{BUCKET}/llama"
INDEX = {"metadata": {"total_size": 16_060_522_496}}
OBJECTS = {
    "llama/config.json": json.dumps(configs.LLAMA3_8B).encode(),
    "llama/model.safetensors.index.json": json.dumps(INDEX).encode(),
    "llama/model-1.safetensors": b"7777777",
    "odd/config.json": b"[1]",
    "gguf/model.gguf": b"GGUF",
    "lora/adapter_config.json": b'{"peft_type": "LORA", "r": 8}',
    "lora/adapter_model.safetensors": b"1234",
    "wide/adapter_config.json": b'{"peft_type": "LORA", "r": 64}',
    "prompt/adapter_config.json": b'{"peft_type": "PROMPT_TUNING"}',
}


@pytest.fixture(scope="module")
def shared():
    with running_store(OBJECTS) as running:
        yield running


@pytest.fixture
def store(shared, settings, monkeypatch):
    settings.OBJECT_STORES = [shared.address]
    for name, value in shared.environ.items():
        monkeypatch.setenv(name, value)
    return shared


@pytest.fixture
def people(db):
    return make_people()


@pytest.fixture
def operator(people):
    client = APIClient()
    client.force_login(people.operator)
    return client


def new_version(client, source=SOURCE, **changes):
    client.post("/api/v1/models/", {"name": "llama", "task": "generate"}, format="json")
    model = client.get("/api/v1/models/").json()["results"][0]
    new = {"label": "v1", "engine": "vllm", "source": source, "served_name": "llama"} | changes
    return client.post(f"/api/v1/models/{model['id']}/versions/", new, format="json")


def test_a_version_is_pinned_to_what_lies_there_and_knows_its_shape_and_size(operator, store):
    made = new_version(operator, source=f"{SOURCE}/")
    assert made.status_code == 201, made.json()
    version = ModelVersion.objects.get()
    assert (version.source, version.weight_bytes, version.config) == (SOURCE, 16_060_522_496, configs.LLAMA3_8B)
    assert is_digest(version.revision)
    assert version.weights_key == f"{SOURCE}@{version.revision}"


def test_facts_are_read_as_of_a_repository(operator, store):
    read = operator.get("/api/v1/model-facts/", {"source": f"s3://{BUCKET}/gguf/model.gguf"}).json()
    assert (read["config"], read["weight_bytes"], read["commit"]) == ({}, 4, read["revision"])


def test_a_changed_object_makes_another_revision(operator, store):
    before = operator.get("/api/v1/model-facts/", {"source": SOURCE}).json()["revision"]
    store.put("llama/model-1.safetensors", b"8888888")
    assert operator.get("/api/v1/model-facts/", {"source": SOURCE}).json()["revision"] != before
    store.put("llama/model-1.safetensors", OBJECTS["llama/model-1.safetensors"])
    assert operator.get("/api/v1/model-facts/", {"source": SOURCE}).json()["revision"] == before


def test_with_its_digest_given_nobody_is_asked(operator, settings):
    settings.OBJECT_STORES = [StoreAddress(name="away", endpoint="http://127.0.0.1:1")]
    made = new_version(operator, revision="0" * 64, weight_bytes=5)
    assert (made.status_code, made.json()["revision"]) == (201, "0" * 64)
    assert new_version(operator, label="v2", revision="main").json()["fields"].keys() == {"revision"}


@pytest.mark.parametrize(
    ("source", "refusal", "says"),
    [
        (f"s3://{BUCKET}/nothing", (404, "not_found"), "nothing under"),
        ("s3://elsewhere/llama", (404, "not_found"), "no bucket"),
        (f"s3://{BUCKET}/odd", (424, "store_unavailable"), "no object"),
        (f"s3://{BUCKET}", (400, "invalid_input"), "whole bucket"),
        (f"s3://{BUCKET}/a/../b", (400, "invalid_input"), "dots only"),
        ("s3://Models/llama", (400, "invalid_input"), "small letters"),
        ("gs://bucket/llama", (400, "invalid_input"), "storage.googleapis.com"),
        ("az://bucket/llama", (400, "invalid_input"), "mounted"),
        ("https://minio.internal/models/llama", (400, "invalid_input"), "the installation's stores"),
    ],
)
def test_what_cannot_be_read_says_why_and_what_to_do(operator, store, source, refusal, says):
    answer = new_version(operator, source=source)
    assert (answer.status_code, answer.json()["code"]) == refusal
    assert says in answer.json()["detail"]
    assert not ModelVersion.objects.exists()


def test_a_bucket_that_nobody_set_up_is_refused_and_nobody_is_asked(operator, settings):
    settings.OBJECT_STORES = [StoreAddress(name="ours", buckets=("models-*",), endpoint="http://127.0.0.1:1")]
    answer = new_version(operator, source="s3://others/llama")
    assert (answer.status_code, "no object store is set up" in answer.json()["detail"]) == (400, True)


def test_wrong_credentials_are_an_error_on_the_page_and_in_rest_without_the_secret(
    people, operator, store, monkeypatch
):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wr0ng-s3cr3t")
    answer = new_version(operator)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["source"])
    assert "SignatureDoesNotMatch" in answer.json()["detail"]
    model = operator.get("/api/v1/models/").json()["results"][0]
    form = {"label": "v1", "engine": "vllm", "source": SOURCE, "served_name": "llama", "confirmed": "1"}
    page = operator.post(reverse("console:version_new", args=[model["id"]]), form, format="multipart").content.decode()
    assert "does not let us read" in page
    assert "wr0ng-s3cr3t" not in page + answer.content.decode()


def test_a_store_that_is_away_is_named_with_what_to_do(operator, settings, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    settings.OBJECT_STORES = [StoreAddress(name="away", endpoint="http://127.0.0.1:1")]
    answer = new_version(operator)
    assert (answer.status_code, answer.json()["code"]) == (424, "store_unavailable")
    assert "give revision" in answer.json()["detail"]


def test_nobody_but_operators_may_have_a_store_read(people, store):
    for person in (people.owner, people.teammate, people.stranger):
        client = APIClient()
        client.force_login(person)
        assert client.get("/api/v1/model-facts/", {"source": SOURCE}).status_code == 403
    assert APIClient().get("/api/v1/model-facts/", {"source": SOURCE}).status_code in (401, 403)


def with_adapter(client, prefix, revision=None, **changes):
    adapter = {"name": "tone", "source": f"s3://{BUCKET}/{prefix}"} | ({"revision": revision} if revision else {})
    return new_version(client, lora_adapters=[adapter], **changes)


def test_an_adapter_in_a_store_is_pinned_and_its_node_is_told_where_it_lies(operator, store):
    answer = with_adapter(operator, "lora", engine="fake")
    assert answer.status_code == 201, answer.content
    (adapter,) = answer.json()["lora_adapters"]
    assert is_digest(adapter["revision"])
    make_node(gateway_url="http://n1:8080", inventory={"disk_free_bytes": 10**12})
    make_deployment(ModelVersion.objects.get(), replica_count=1)
    reconcile(holder="test", now=NOW)
    (spec,) = msgspec.json.decode(NodeDesired.objects.get().body, type=DesiredState).replicas
    assert spec.lora_revisions == {"tone": adapter["revision"]}
    assert spec.lora_stores["tone"].endpoint == store.url


@pytest.mark.parametrize(
    ("prefix", "fields", "reason"),
    [
        ("llama", {}, "no adapter_config.json"),
        ("nobody", {}, "nothing"),
        ("wide", {}, "its rank is 64, and the engine takes 16"),
        ("prompt", {}, "PROMPT_TUNING"),
        ("lora", {"revision": "main"}, "the digest of what lies there"),
    ],
)
def test_what_is_no_adapter_that_the_engine_takes_is_refused_with_the_reason(operator, store, prefix, fields, reason):
    answer = with_adapter(operator, prefix, **fields)
    assert answer.status_code in {400, 404}
    assert reason in answer.json()["fields"]["lora_adapters"]


def test_a_document_that_leaves_the_pin_of_an_adapter_out_changes_nothing_when_it_is_applied_again(operator, store):
    assert with_adapter(operator, "lora").status_code == 201
    adapters = [{"name": "tone", "source": f"s3://{BUCKET}/lora"}]
    named = {"kind": "Version", "model": "llama", "label": "v1", "engine": "vllm", "served_name": "llama"}
    document = named | {"source": SOURCE, "lora_adapters": adapters}
    assert applied_action(operator, document) == "keep"
    other = document | {"lora_adapters": [adapters[0] | {"revision": "f" * 64}]}
    assert operator.post("/api/v1/apply", other, format="json").status_code == 400


def applied_action(client, document):
    answer = client.post("/api/v1/apply", document, format="json").json()
    return answer["results"][0]["action"]


def test_a_wider_adapter_is_taken_where_the_engine_is_told_so(operator, store):
    answer = with_adapter(operator, "wide", engine="vllm", engine_args={"extra": ["--max-lora-rank", "64"]})
    assert answer.status_code == 201, answer.content


DECLARED = f"""
kind: Model
name: llama
task: generate
---
kind: Version
model: llama
label: v1
engine: fake
source: {SOURCE}/
served_name: llama
"""


def test_a_declared_version_is_pinned_once_and_applied_again_changes_nothing(operator, store):
    def declare():
        return operator.generic("POST", "/api/v1/apply", DECLARED, content_type="application/yaml")

    assert {each["action"] for each in declare().json()["results"]} == {"create"}
    revision = ModelVersion.objects.get().revision
    store.put("llama/model-1.safetensors", b"changed")
    again = declare()
    store.put("llama/model-1.safetensors", OBJECTS["llama/model-1.safetensors"])
    assert {each["action"] for each in again.json()["results"]} == {"keep"}
    assert ModelVersion.objects.get().revision == revision
    assert is_digest(revision)


def test_another_engine_keeps_what_the_version_was_made_of_and_another_source_does_not(operator, store):
    operator.generic("POST", "/api/v1/apply", DECLARED, content_type="application/yaml")
    before = ModelVersion.objects.get().revision
    for old, new in (("engine: fake", "engine: vllm"), (f"{SOURCE}/", f"s3://{BUCKET}/gguf")):
        changed = DECLARED.replace(old, new)
        operator.generic("POST", "/api/v1/apply", changed, content_type="application/yaml")
        version = ModelVersion.objects.get()
        assert (version.revision == before) == (version.source == SOURCE)


def test_a_node_is_told_where_the_bucket_is_and_nobody_is_told_a_secret(operator, store):
    make_node(gateway_url="http://n1:8080", inventory={"disk_free_bytes": 10**12})
    new_version(operator, engine="fake")
    make_deployment(ModelVersion.objects.get(), replica_count=1)
    reconcile(holder="test", now=NOW)
    body = NodeDesired.objects.get().body
    one = msgspec.json.decode(body, type=DesiredState).replicas[0]
    assert (one.source, one.store, is_digest(one.revision)) == (SOURCE, store.address, True)
    told = body + json.dumps(list(AuditEntry.objects.values_list("after", flat=True)), default=str)
    assert not any(secret in told for secret in store.environ.values())

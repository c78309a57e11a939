"""Paths that vLLM has beside OpenAI's, and which of its models are asked what."""

import json

import msgspec
import pytest

from tests.support.fake_engines import fake_engine
from tests.support.gateways import running_gateway, snapshot_for, with_task
from tests.support.raw_http import call
from tests.support.scripted_engine import scripted_engine, whole
from workers.contracts.limits import LimitRule, TenantLimits

pytestmark = pytest.mark.integration

TO_GENERATE = ("/v1/chat/completions", "/v1/chat/completions/batch", "/v1/completions", "/v1/responses", "/v1/messages")
TO_EMBED = (
    "/v1/embeddings", "/pooling", "/v1/score", "/score", "/classify", "/v1/rerank", "/v2/rerank", "/rerank",
)  # fmt: skip


@pytest.fixture
async def engine():
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "0.1") as server:
        yield server


@pytest.fixture
async def gateway(engine, tmp_path):
    async with running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine.port]))) as running:
        yield running


@pytest.mark.parametrize(
    ("contexts", "known"), [((8192, 4096), 4096), ((8192, None), None), ((None, None), None), ((512, 512), 512)]
)
async def test_models_say_how_long_a_context_every_version_of_theirs_takes_where_that_is_known(
    engine, tmp_path, contexts, known
):
    snapshot = snapshot_for(("first", 50, [engine.port]), ("second", 50, [engine.port]))
    versions = [
        msgspec.structs.replace(version, max_context_tokens=tokens)
        for version, tokens in zip(snapshot.versions, contexts, strict=True)
    ]
    async with running_gateway(tmp_path, msgspec.structs.replace(snapshot, versions=versions)) as running:
        listed = (await running.call("GET", "/v1/models")).json()["data"]
        one = (await running.call("GET", "/v1/models/demo-chat")).json()
    assert listed == [one]
    assert one.get("max_model_len") == known
    assert ("max_model_len" in one) == (known is not None)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/ping", 200),
        ("POST", "/ping", 200),
        ("HEAD", "/ping", 200),
        ("DELETE", "/ping", 405),
        ("GET", "/health", 200),
        ("POST", "/health", 405),
    ],
)
async def test_whoever_asks_whether_it_lives_is_told_as_by_vllm_without_a_key(gateway, method, path, status):
    answer = await call(gateway.port, method, path)
    assert answer.status == status
    assert status != 200 or answer.body == b""


async def test_a_request_of_several_conversations_reaches_an_engine_that_has_it_and_is_counted_as_a_whole(tmp_path):
    choices = [
        {"index": index, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
        for index in (0, 1)
    ]
    usage = {"prompt_tokens": 11, "completion_tokens": 6, "total_tokens": 17}
    said = json.dumps({"object": "chat.completion", "model": "demo-chat", "choices": choices, "usage": usage}).encode()
    talks = [[{"role": "user", "content": "one"}], [{"role": "user", "content": "two"}]]
    async with (
        scripted_engine(whole(said)) as vllm,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [vllm.port]))) as running,
    ):
        body = {"model": "demo-chat", "messages": talks, "max_tokens": 3}
        answer = await running.call("POST", "/v1/chat/completions/batch", body)
        [record] = await running.wait_for_records(1)
    assert (answer.status, answer.json()["choices"]) == (200, choices)
    assert vllm.seen[0].startswith(b"POST /v1/chat/completions/batch ")
    assert json.loads(vllm.seen[0].partition(b"\r\n\r\n")[2])["messages"] == talks
    assert (record.path, record.input_tokens, record.output_tokens) == ("/v1/chat/completions/batch", 11, 6)
    assert record.usage_source == "engine"


async def test_what_several_conversations_may_have_is_reserved_for_each_of_them(tmp_path):
    rule = LimitRule(limit_id="l", scope="tenant", kind="tokens_per_minute", amount=500)
    limits = [TenantLimits(tenant_id="gold", rules=[rule])]
    talks = [[{"role": "user", "content": "hi"}]] * 6
    async with (
        scripted_engine(whole(b"{}")) as vllm,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [vllm.port]), limits=limits)) as running,
    ):
        body = {"model": "demo-chat", "messages": talks, "max_tokens": 100}
        answer = await running.call("POST", "/v1/chat/completions/batch", body)
    assert (answer.status, answer.json()["error"]["code"]) == (429, "larger_than_limit")
    assert vllm.seen == []


@pytest.mark.parametrize(
    ("task", "path"), [("generate", path) for path in TO_EMBED] + [("embed", path) for path in TO_GENERATE]
)
async def test_a_model_is_not_asked_for_what_it_does_not_do(engine, tmp_path, task, path):
    snapshot = with_task(snapshot_for(("demo-chat", 100, [engine.port])), task)
    async with running_gateway(tmp_path, snapshot) as running:
        answer = await running.call("POST", path, {"model": "demo-chat", "input": "x"})
        [record] = await running.wait_for_records(1)
    code = answer.header("x-error-code") or answer.json()["error"].get("code")
    assert (answer.status, code) == (400, "wrong_task")
    assert (record.outcome, record.usage_source, record.cost_pico_usd) == ("rejected", "none", 0)


@pytest.mark.parametrize("encoding", ["bytes", "bytes_only"])
async def test_what_is_embedded_into_bytes_is_estimated_by_its_prompt_and_not_by_its_vectors(tmp_path, encoding):
    vectors = whole(bytes(range(256)) * 64, content_type="application/octet-stream")
    async with scripted_engine(vectors) as vllm:
        snapshot = with_task(snapshot_for(("demo-chat", 100, [vllm.port])), "embed")
        async with running_gateway(tmp_path, snapshot) as running:
            body = {"model": "demo-chat", "input": "a text of some words", "encoding_format": encoding}
            answer = await running.call("POST", "/v1/embeddings", body)
            [record] = await running.wait_for_records(1)
    assert answer.body == bytes(range(256)) * 64
    assert (record.usage_source, record.output_tokens) == ("estimated", 0)
    assert 0 < record.input_tokens < 40

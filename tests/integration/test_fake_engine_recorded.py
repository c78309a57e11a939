"""The fake engine against exchanges recorded from vLLM 0.32: the same bytes but for text, numbers and ids."""

import json
from typing import Any

import pytest

from tests.support.fake_engines import fake_engine
from tests.support.raw_http import RawResponse, call, exchange
from tests.support.vllm_samples import DIRECTORY, load_sample
from workers.engines.fake.faults import Faults

pytestmark = pytest.mark.integration

GENERATE = ("--served-model-name", "smollm2", "--max-model-len", "2048")
# Slow enough that each token has a chunk of its own.
UNHURRIED = ("--time-scale", "3")
EMBED = ("--served-model-name", "minilm", "--max-model-len", "256", "--task", "embed")
VARYING_HEADERS = {"date", "content-length", "x-request-id"}
# What must be equal to the letter; of everything else, the kind.
LITERAL_KEYS = {"object", "role", "finish_reason", "stop_reason", "owned_by", "system_fingerprint", "index", "model"}

WHOLE = [
    "chat",
    "chat_logprobs",
    "chat_priority_header",
    "completions",
    "models",
    "tokenize_prompt",
    "detokenize",
    "responses",
    "anthropic_messages",
]
STREAMS = [
    "chat_stream_usage",
    "chat_stream_nousage",
    "chat_stream_continuous_usage",
    "completions_stream",
    "completions_n2",
]
NAMED_STREAMS = ["responses_stream", "anthropic_messages_stream"]
EXACT = [
    "health",
    "ping",
    "version",
    "load",
    "chat_tools_not_enabled",
    "err_404",
    "err_bad_json",
    "err_bad_type",
    "err_embeddings_on_gen",
    "err_max_tokens_over",
    "err_method",
    "err_missing_messages",
    "err_neg_maxtok",
    "err_priority_type",
    "err_temp_range",
    "err_too_long",
    "err_too_long_stream",
    "err_unknown_model",
    "err_wrong_ctype",
    "err_anthropic_no_max_tokens",
]


def shape(value: Any, key: str = "") -> Any:
    """Keys in their order and the kind of each value, so that two answers can be compared field by field."""
    if isinstance(value, dict):
        return [(name, shape(item, name)) for name, item in value.items()]
    if isinstance(value, list):
        return ["list", *([shape(value[0])] if value else [])]
    if key in LITERAL_KEYS or value is None or isinstance(value, bool):
        return value
    return type(value).__name__


def comparable_headers(response: RawResponse) -> list[tuple[str, str | None]]:
    return [(name, None if name in VARYING_HEADERS else value) for name, value in response.headers]


async def replay(name: str, *options: str) -> tuple[RawResponse, RawResponse]:
    sample = load_sample(name)
    async with fake_engine(*options) as server:
        return sample.response, await exchange(server.port, sample.request)


@pytest.mark.parametrize("name", WHOLE)
async def test_whole_answers_have_the_recorded_keys_in_the_recorded_order(name):
    recorded, answered = await replay(name, *GENERATE)
    assert answered.status_line == recorded.status_line
    assert comparable_headers(answered) == comparable_headers(recorded)
    assert shape(answered.json()) == shape(recorded.json())


@pytest.mark.parametrize("name", STREAMS)
async def test_streams_have_the_recorded_events_one_to_a_chunk(name):
    recorded, answered = await replay(name, *GENERATE, *UNHURRIED)
    assert comparable_headers(answered) == comparable_headers(recorded)
    # Choices of one step come in no promised order.
    assert sorted(map(repr, map(shape, answered.events()))) == sorted(map(repr, map(shape, recorded.events())))
    assert len(answered.chunks) == len(recorded.chunks)
    assert all(chunk.startswith(b"data: ") and chunk.endswith(b"\n\n") for chunk in answered.chunks)


@pytest.mark.parametrize("name", NAMED_STREAMS)
async def test_streams_of_named_events_have_the_recorded_ones_in_their_order(name):
    recorded, answered = await replay(name, *served_as(name), "--max-model-len", "2048", *UNHURRIED)
    assert comparable_headers(answered) == comparable_headers(recorded)
    assert event_names(answered) == event_names(recorded)
    assert list(map(shape, answered.events())) == list(map(shape, recorded.events()))
    assert len(answered.chunks) == len(recorded.chunks)


def served_as(name: str) -> tuple[str, str]:
    return "--served-model-name", json.loads(load_sample(name).request.partition(b"\r\n\r\n")[2])["model"]


def event_names(response: RawResponse) -> list[str]:
    return [line for line in response.body.decode().splitlines() if line.startswith("event: ")]


async def test_messages_are_counted_and_refused_as_recorded():
    recorded, answered = await replay("anthropic_count_tokens", *served_as("anthropic_count_tokens"))
    assert shape(answered.json()) == shape(recorded.json())
    recorded, answered = await replay("err_anthropic_unknown_model", "--served-model-name", "demo-chat")
    assert (answered.status, answered.body) == (recorded.status, recorded.body)


@pytest.mark.parametrize("name", EXACT)
async def test_refusals_and_small_answers_are_equal_to_the_letter(name):
    recorded, answered = await replay(name, *GENERATE)
    assert answered.status_line == recorded.status_line
    assert comparable_headers(answered) == comparable_headers(recorded)
    assert answered.body == recorded.body


@pytest.mark.parametrize("name", ["pool_embeddings", "pool_embeddings_b64", "pool_models", "pool_rerank", "pool_score"])
async def test_an_embedding_engine_answers_as_recorded(name):
    recorded, answered = await replay(name, *EMBED)
    assert shape(answered.json()) == shape(recorded.json())


async def test_vectors_of_the_recorded_size_come_as_floats_or_base64():
    recorded, answered = await replay("pool_embeddings", *EMBED)
    assert len(answered.json()["data"][0]["embedding"]) == len(recorded.json()["data"][0]["embedding"])
    recorded, answered = await replay("pool_embeddings_b64", *EMBED)
    assert len(answered.json()["data"][0]["embedding"]) == len(recorded.json()["data"][0]["embedding"])


async def test_an_embedding_engine_does_not_chat():
    recorded, answered = await replay("pool_chat", *EMBED)
    assert (answered.status, answered.body) == (recorded.status, recorded.body)


async def test_an_embedding_engine_refuses_what_is_too_long():
    """VLLM's own words name a bound in characters that follows from its tokeniser; words have none."""
    recorded, answered = await replay("pool_embeddings_toolong", *EMBED)
    assert answered.status == recorded.status
    assert shape(answered.json()) == shape(recorded.json())


@pytest.mark.parametrize(
    "name", ["queuefull_chat", "queuefull_chat_stream", "queuefull_completions", "queuefull_completions_stream"]
)
async def test_a_full_queue_is_refused_as_recorded(name):
    sample = load_sample(name)
    async with full_engine() as server:
        answered = await exchange(server.port, sample.request)
    assert comparable_headers(answered) == comparable_headers(sample.response)
    assert answered.body == sample.response.body


async def test_in_a_burst_a_full_queue_shows_inside_the_stream():
    sample = load_sample("queuefull_burst_stream_200_then_sse_error")
    async with full_engine("--queue-full-in-stream") as server:
        answered = await exchange(server.port, sample.request)
    assert comparable_headers(answered) == comparable_headers(sample.response)
    assert answered.chunks == sample.response.chunks


def full_engine(*options: str):
    """An engine without room: none may wait, and its one slot never gets free."""
    return fake_engine(*GENERATE, "--max-num-seqs", "1", "--max-num-queued-reqs", "-1", *options)


async def test_the_chat_template_adds_tokens_around_each_message():
    async with fake_engine(*GENERATE) as server:
        answered = await exchange(server.port, load_sample("tokenize_chat").request)
    counted = answered.json()
    assert counted["token_strs"] is None
    assert counted["count"] == len(counted["tokens"]) == len(["Name", "three", "colours."]) + 7


async def test_metrics_have_vllms_names_types_and_labels():
    recorded = load_metrics_lines()
    async with fake_engine(*GENERATE) as server:
        await exchange(server.port, load_sample("chat").request)
        answered = await call(server.port, "GET", "/metrics")
    assert answered.header("content-type") == "text/plain; version=1.0.0; charset=utf-8"
    for line in answered.body.decode().splitlines():
        if line.startswith("# TYPE"):
            assert line in recorded
        elif not line.startswith("#") and "cache_config_info" not in line:
            assert line.rpartition(" ")[0] in recorded, line


def load_metrics_lines() -> set[str]:
    """TYPE lines, and samples without their values."""
    lines = (DIRECTORY / "metrics_under_load.txt").read_text().splitlines()
    return {line if line.startswith("#") else line.rpartition(" ")[0] for line in lines}


async def test_a_dying_engine_core_ends_streams_with_the_recorded_error():
    recorded = load_sample("enginecore_kill9_stream").response
    whole = load_sample("enginecore_kill9_nonstream").response
    async with fake_engine(*GENERATE) as server:
        server.engine.set_faults(Faults(crash_after_tokens=3, crash_mode="engine_dead"))
        stream = await exchange(server.port, load_sample("enginecore_kill9_stream").request)
        answer = await exchange(server.port, load_sample("enginecore_kill9_nonstream").request)
        health = await call(server.port, "GET", "/health")
    assert stream.events()[-2:] == recorded.events()[-2:]
    assert stream.chunks[-2:] == recorded.chunks[-2:]
    assert (answer.status, answer.body) == (whole.status, whole.body)
    assert health.status == 503


async def test_two_answers_to_the_same_request_have_the_same_text():
    sample = load_sample("chat")
    async with fake_engine(*GENERATE) as server:
        first, second = [await exchange(server.port, sample.request) for _ in range(2)]
    assert first.json()["choices"] == second.json()["choices"]
    assert json.loads(first.body)["id"] == "chatcmpl-req-abc-123"

"""Through the gateway a pooling model of real vLLM answers as it does alone, and its input is counted."""

import pytest

from tests.support.byte_equality import ask_both, assert_equal
from tests.support.gateways import running_gateway, snapshot_for, with_task

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

RERANK = {"query": "cat", "documents": ["kitten", "car"]}
SCORE = {"text_1": "a cat", "text_2": ["a kitten", "a car"]}
CASES = {
    "/v1/embeddings": {"input": ["hello world", "a cat"]},
    "/pooling": {"input": "a cat"},
    "/rerank": RERANK,
    "/v1/rerank": RERANK,
    "/v2/rerank": RERANK | {"top_n": 1},
    "/score": SCORE,
    "/v1/score": SCORE,
    "/tokenize": {"prompt": "a cat"},
}
REFUSED = {
    "/v1/embeddings": {"input": "word " * 600},
    "/v1/rerank": {"query": "cat", "documents": []},
    "/v1/score": {"text_1": "a cat"},
}


@pytest.fixture
async def gateway(pooling_port, tmp_path):
    snapshot = with_task(snapshot_for(("demo-chat", 100, [pooling_port])), "embed")
    async with running_gateway(tmp_path, snapshot) as running:
        yield running


async def test_every_answer_equals_the_bare_engines_and_is_counted(gateway, pooling_port):
    for path, fields in CASES.items():
        alone, through = await ask_both(pooling_port, gateway.port, path, {"model": "demo-chat"} | fields)
        assert_equal(alone, through)
        assert through.status == 200
    recorded = {record.path: record for record in gateway.records()}
    assert recorded["/v1/rerank"].input_tokens == 9
    assert recorded["/v1/score"].input_tokens == 12
    assert {record.usage_source for path, record in recorded.items() if path != "/tokenize"} == {"engine"}
    assert recorded["/tokenize"].usage_source == "none"


async def test_every_refusal_equals_the_bare_engines_and_costs_nothing(gateway, pooling_port):
    for path, fields in REFUSED.items():
        alone, through = await ask_both(pooling_port, gateway.port, path, {"model": "demo-chat"} | fields)
        assert_equal(alone, through)
    assert {(record.outcome, record.cost_pico_usd) for record in gateway.records()} == {("rejected", 0)}


@pytest.mark.parametrize("encoding", ["bytes", "bytes_only"])
async def test_what_is_embedded_into_bytes_is_counted_or_estimated_by_its_prompt(gateway, pooling_port, encoding):
    fields = {"model": "demo-chat", "input": "a cat on a mat", "encoding_format": encoding}
    alone, through = await ask_both(pooling_port, gateway.port, "/v1/embeddings", fields)
    assert (alone.status, alone.body) == (through.status, through.body)
    [record] = gateway.records()
    assert (record.usage_source, record.output_tokens) == ("estimated", 0)
    assert 0 < record.input_tokens < 40

"""Real vLLM on the CPU, installed and started by its adapter. Minutes; run by `make test-engine`."""

import json

import pytest

from tests.support.engines import get, post

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]


def test_it_chats_and_counts_its_tokens_as_it_goes(vllm_adapter, vllm_port):
    url = f"http://127.0.0.1:{vllm_port}"
    question = {"messages": [{"role": "user", "content": "Name three colours."}], "max_tokens": 8, "temperature": 0}
    options = {"include_usage": True, "continuous_usage_stats": True}
    before = vllm_adapter.read_metrics(get(f"{url}/metrics").decode()).generated_tokens_total
    _, whole = post(f"{url}/v1/chat/completions", question)
    _, stream = post(f"{url}/v1/chat/completions", question | {"stream": True, "stream_options": options})
    reading = vllm_adapter.read_metrics(get(f"{url}/metrics").decode())
    assert "Red" in json.loads(whole)["choices"][0]["message"]["content"]
    events = [json.loads(line[6:]) for line in stream.decode().splitlines() if line.startswith("data: {")]
    counts = [event["usage"]["completion_tokens"] for event in events]
    assert counts == sorted(counts)
    assert counts[-1] == 8
    assert reading.generated_tokens_total - before == 8 + 8
    assert (reading.running_requests, reading.waiting_requests) == (0, 0)


def test_it_embeds(pooling_port):
    status, body = post(f"http://127.0.0.1:{pooling_port}/v1/embeddings", {"model": "demo-chat", "input": "hello"})
    assert status == 200
    assert len(json.loads(body)["data"][0]["embedding"]) == 384

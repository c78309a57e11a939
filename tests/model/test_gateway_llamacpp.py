"""Through the gateway a client of llama.cpp sees what llama.cpp alone would send, and its tokens are counted."""

import os

import msgspec
import pytest

from tests.support.byte_equality import CASES, ask_both, assert_equal, body_of
from tests.support.engines import running_engine
from tests.support.fake_engines import free_port
from tests.support.gateways import running_gateway, snapshot_for
from tests.support.specs import replica_spec
from workers.engines.environments.install import install
from workers.engines.environments.recipes import LLAMACPP
from workers.engines.llamacpp.adapter import LlamaCppAdapter
from workers.engines.site import find_site

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

# llama.cpp puts timings into an event before the last when a stop word cut it, which no other request can tell.
_NOT_EXACT = {"chat stop"}


@pytest.fixture(scope="module")
def engine_port(tmp_path_factory):
    site = find_site(os.environ)
    install(LLAMACPP, site.cache, print)
    spec = replica_spec(
        engine="llamacpp",
        source="smollm2-135m-instruct",
        served_name="demo-chat",
        port=free_port(),
        max_running_requests=4,
    )
    with running_engine(LlamaCppAdapter(site), spec, tmp_path_factory.mktemp("llamacpp") / "log"):
        yield spec.port


def snapshot(engine_port):
    plain = snapshot_for(("demo-chat", 100, [engine_port]))
    endpoints = [msgspec.structs.replace(endpoint, engine="llamacpp") for endpoint in plain.endpoints]
    return msgspec.structs.replace(plain, endpoints=endpoints)


async def test_every_answer_equals_the_bare_engines(engine_port, tmp_path):
    async with running_gateway(tmp_path, snapshot(engine_port)) as gateway:
        for case in CASES:
            alone, through = await ask_both(engine_port, gateway.port, *body_of(case))
            if case not in _NOT_EXACT:
                assert_equal(alone, through)
        records = gateway.records()
    answered = [record for record in records if record.status == 200]
    assert {record.usage_source for record in answered} == {"engine"}
    assert [record.output_tokens for record in answered if record.path == "/v1/completions"] == [8, 8, 8, 8]

"""Through the gateway a client of llama.cpp sees what llama.cpp alone would send, and its tokens are counted."""

import asyncio
import os

import msgspec
import pytest

from tests.support.byte_equality import CASES, ask_both, assert_equal, body_of
from tests.support.cutting import cutting_proxy
from tests.support.engines import running_engine
from tests.support.fake_engines import free_port
from tests.support.gateways import chat_body, running_gateway, snapshot_for
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


def snapshot(*ports):
    plain = snapshot_for(("demo-chat", 100, ports))
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


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", chat_body("Tell me about rivers in three sentences.")),
        ("/v1/completions", {"model": "demo-chat", "prompt": "The river"}),
    ],
)
async def test_a_greedy_answer_that_is_broken_off_goes_on_word_for_word(engine_port, tmp_path, path, body):
    body = body | {"temperature": 0, "max_tokens": 24, "stream": True}
    async with (
        cutting_proxy(engine_port) as cut_port,
        running_gateway(tmp_path, snapshot(engine_port, cut_port)) as gateway,
    ):
        answers = await asyncio.gather(*[gateway.call("POST", path, body) for _ in range(2)])
        records = await gateway.wait_for_records(2)
    assert {record.attempts for record in records} == {1, 2}
    assert len({text_of(answer) for answer in answers}) == 1
    assert len({(record.input_tokens, record.output_tokens) for record in records}) == 1
    told = [answer.events()[-2]["timings"] for answer in answers]
    assert len({(timings["prompt_n"] + timings["cache_n"], timings["predicted_n"]) for timings in told}) == 1


def text_of(answer):
    choices = [event["choices"][0] for event in answer.events() if event != "[DONE]" and event["choices"]]
    return "".join(choice.get("text") or choice.get("delta", {}).get("content") or "" for choice in choices)

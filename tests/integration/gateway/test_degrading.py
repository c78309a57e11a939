"""A cheaper version answers where a request's own cannot, and everything says so."""

import asyncio
import time
from collections import Counter

import msgspec
import pytest

from tests.support.fake_engines import fake_engine
from tests.support.gateways import chat_body, running_gateway, snapshot_for
from workers.contracts.endpoints import EngineShape
from workers.contracts.snapshot import Price
from workers.gateway.driving.explaining import Explainer

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
PROFILE = "llama3-8b/h100/tp1"


def two_versions(large, small, **changes):
    """The route leads to the large one, and the small one may stand in; `large` None has no engine."""
    built = snapshot_for(("large", 100, large), ("small", 0, small), **changes)
    [route] = built.routes
    versions = [built.versions[0], msgspec.structs.replace(built.versions[1], price=Price(output_pico_usd=1))]
    return msgspec.structs.replace(
        built, routes=[msgspec.structs.replace(route, alternatives=["v2"])], versions=versions
    )


def header(answer, name):
    return dict(answer.headers).get(name)


@pytest.mark.parametrize("is_stream", [False, True])
async def test_what_the_large_version_cannot_answer_the_small_one_does(tmp_path, is_stream):
    async with (
        fake_engine("--served-model-name", "small") as small,
        running_gateway(tmp_path, two_versions([], [small.port])) as gateway,
    ):
        answer = await gateway.chat(stream=is_stream, max_tokens=4, ignore_eos=True)
        [record] = await gateway.wait_for_records(1)
        trail = gateway.service._driver.trails.find(header(answer, "x-request-id"))
        told = Explainer(time.monotonic, time.time).explain(trail)
    assert answer.status == 200
    assert header(answer, "x-degraded-to") == "demo-chat@v2"
    assert b'"model":"demo-chat"' in answer.body.replace(b'": "', b'":"')
    assert (record.version_id, record.endpoint_id, record.public_model) == ("v2", "v2-0", "demo-chat")
    assert (record.usage_source, record.output_tokens, record.cost_pico_usd) == ("engine", 4, 4)
    assert ("degraded", "demo-chat@v2") in [(step.what, step.detail) for step in told.steps]
    assert told.choices[-1].version_id == "v2"


async def test_what_the_large_version_answers_is_not_degraded(tmp_path):
    async with (
        fake_engine("--served-model-name", "large") as large,
        fake_engine("--served-model-name", "small") as small,
        running_gateway(tmp_path, two_versions([large.port], [small.port])) as gateway,
    ):
        answer = await gateway.chat()
        [record] = await gateway.wait_for_records(1)
    assert (answer.status, header(answer, "x-degraded-to"), record.version_id) == (200, None, "v1")


async def test_who_cannot_be_in_time_behind_others_is_answered_by_the_small_version(tmp_path):
    shape = EngineShape(cost_profile=PROFILE, time_scale=20.0)
    async with (
        fake_engine("--served-model-name", "large", "--time-scale", "20") as large,
        fake_engine("--served-model-name", "small") as small,
    ):
        snapshot = two_versions([large.port], [small.port])
        endpoints = [
            msgspec.structs.replace(snapshot.endpoints[0], shape=shape),
            msgspec.structs.replace(snapshot.endpoints[1], shape=msgspec.structs.replace(shape, time_scale=0.05)),
        ]
        async with running_gateway(tmp_path, msgspec.structs.replace(snapshot, endpoints=endpoints)) as gateway:
            answers = await asyncio.gather(*[gateway.chat(f"{n} " * 700, max_tokens=2) for n in range(20)])
            records = await gateway.wait_for_records(20)
    by_version = Counter(record.version_id for record in records if record.status == 200)
    said = Counter(header(answer, "x-degraded-to") for answer in answers if answer.status == 200)
    assert by_version["v1"] > 0
    assert said["demo-chat@v2"] == by_version["v2"] > 0


async def test_who_holds_on_to_a_version_waits_for_it(tmp_path):
    async with (
        fake_engine("--served-model-name", "small") as small,
        running_gateway(tmp_path, two_versions([], [small.port])) as gateway,
    ):
        body = chat_body(user="someone")
        pinned = asyncio.create_task(gateway.call("POST", CHAT, body))
        allowed = await gateway.call("POST", CHAT, body, headers={"X-Degrade": "allow"})
        unsound = await gateway.call("POST", CHAT, body, headers={"X-Degrade": "maybe"})
        assert not pinned.done()
        pinned.cancel()
    assert (allowed.status, header(allowed, "x-degraded-to")) == (200, "demo-chat@v2")
    assert (unsound.status, unsound.json()["error"]["param"]) == (400, "x-degrade")

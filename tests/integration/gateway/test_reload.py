"""What is published while requests run changes what comes after them, and nothing of them."""

import asyncio

import pytest
from msgspec import structs

from tests.support.fake_engines import fake_engine
from tests.support.gateways import running_gateway, snapshot_for

pytestmark = pytest.mark.integration

ENGINE = ("--served-model-name", "demo-chat", "--time-scale", "1")


def with_draining(snapshot, generation, *draining):
    """The same with these endpoints, by number, draining."""
    endpoints = [
        structs.replace(endpoint, is_draining=number in draining) for number, endpoint in enumerate(snapshot.endpoints)
    ]
    return structs.replace(snapshot, generation=generation, endpoints=endpoints)


async def engines_of(gateway, count):
    await asyncio.gather(*[gateway.chat(max_tokens=2) for _ in range(count)])
    return {record.endpoint_id for record in gateway.records()[-count:]}


async def test_an_endpoint_that_drains_gets_nothing_new_breaks_no_stream_and_may_come_back(tmp_path):
    async with fake_engine(*ENGINE) as one, fake_engine(*ENGINE) as other:
        snapshot = snapshot_for(("demo-chat", 100, [one.port, other.port]))
        first, second = (endpoint.endpoint_id for endpoint in snapshot.endpoints)
        async with running_gateway(tmp_path, with_draining(snapshot, 1, 1), grace_s=20) as gateway:
            stream = asyncio.create_task(gateway.chat(stream=True, max_tokens=150, ignore_eos=True))
            await asyncio.sleep(0.3)
            gateway.publish(with_draining(snapshot, 2, 0))
            await gateway.wait_for_generation(2)
            while_draining = await engines_of(gateway, 4)
            gateway.publish(with_draining(snapshot, 3, 1))
            await gateway.wait_for_generation(3)
            afterwards = await engines_of(gateway, 4)
            streamed = await stream
            [record] = [record for record in gateway.records() if record.is_stream]
    assert (while_draining, afterwards) == ({second}, {first})
    assert streamed.body.endswith(b"data: [DONE]\n\n")
    assert (record.endpoint_id, record.outcome, record.output_tokens) == (first, "completed", 150)


async def test_no_request_is_dropped_while_snapshots_come_and_go(tmp_path):
    async with fake_engine("--served-model-name", "demo-chat") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        async with running_gateway(tmp_path, snapshot) as gateway:
            statuses = []

            async def ask():
                statuses.extend([(await gateway.chat(max_tokens=2)).status for _ in range(15)])

            asking = [asyncio.create_task(ask()) for _ in range(4)]
            for generation in range(2, 7):
                gateway.publish(structs.replace(snapshot, generation=generation))
                await gateway.wait_for_generation(generation)
            await asyncio.gather(*asking)
    assert statuses == [200] * 60

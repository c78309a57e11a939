"""Loads that would break a router: a real gateway process, fake engines, and who gets what. No times are compared."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tests.support.fake_engines import fake_engine, free_port
from tests.support.gateway_processes import gateway_process, spooled
from tests.support.gateways import authorised, chat_body, snapshot_for, with_shape, without_limits
from tests.support.raw_http import call

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"


class Load:
    """`ended` are the names of requests in the order in which they were answered."""

    def __init__(self, port):
        self.port = port
        self.ended = []
        self.statuses = Counter()

    async def ask(self, name, body, tenant="gold", headers=None):
        answer = await call(self.port, "POST", CHAT, body, authorised(tenant) | (headers or {}))
        self.ended.append(name)
        self.statuses[answer.status] += 1
        return answer

    async def all_at_once(self, name, count, body, tenant="gold"):
        return await asyncio.gather(*[self.ask(name, body(number), tenant) for number in range(count)])


@asynccontextmanager
async def yard(directory, count, *options, time_scale=0.05, has_limits=True, **endpoint):
    """(load, engines) of a gateway process in front of so many fake engines."""
    async with AsyncExitStack() as stack:
        arguments = ("--served-model-name", "demo-chat", "--time-scale", str(time_scale), *options)
        engines = [await stack.enter_async_context(fake_engine(*arguments)) for _ in range(count)]
        snapshot = snapshot_for(("demo-chat", 100, [engine.port for engine in engines]))
        snapshot = with_shape(snapshot if has_limits else without_limits(snapshot), time_scale, **endpoint)
        port = free_port()
        stack.enter_context(gateway_process(directory, snapshot, port))
        yield Load(port), engines


async def served_by(engines):
    """How many requests each engine has taken."""
    return [len((await call(engine.port, "GET", "/fake/requests")).json()["requests"]) for engine in engines]


async def records_of(directory, count):
    async with asyncio.timeout(20):
        while len(spooled(directory)) < count:  # noqa: ASYNC110 - another process writes them
            await asyncio.sleep(0.05)
    return spooled(directory)


def short(number):
    return chat_body(f"question {number}", max_tokens=20, ignore_eos=True)


async def test_a_flooding_class_does_not_starve_the_others(tmp_path):
    async with yard(tmp_path, 1, time_scale=0.5, has_limits=False, max_running_requests=4) as (load, _):
        flood = asyncio.create_task(load.all_at_once("flood", 120, short, "batch"))
        await asyncio.sleep(0.5)
        await asyncio.gather(load.all_at_once("gold", 6, short), load.all_at_once("standard", 6, short, "standard"))
        flooded_before = Counter(load.ended)["flood"]
        await flood
    assert flooded_before < 90, "they waited for no more than what ran, and a share"
    assert load.statuses == {200: 132}


async def test_of_one_class_a_flow_that_floods_does_not_starve_the_others(tmp_path):
    async with yard(tmp_path, 1, time_scale=0.5, has_limits=False, max_running_requests=4) as (load, _):
        many = {"x-gateway-inference-fairness-id": "many"}
        few = {"x-gateway-inference-fairness-id": "few"}
        flood = asyncio.gather(*[load.ask("flood", short(number), headers=many) for number in range(120)])
        await asyncio.sleep(0.5)
        await asyncio.gather(*[load.ask("few", short(number), headers=few) for number in range(8)])
        flooded_before = Counter(load.ended)["flood"]
        await flood
    assert flooded_before < 60
    assert load.statuses == {200: 128}


async def test_one_prefix_that_all_share_makes_no_hot_spot(tmp_path):
    prefix = " ".join(f"rule{number}" for number in range(4000))

    def shared(number):
        return chat_body(f"{prefix} and {number}", max_tokens=400, ignore_eos=True)

    async with yard(tmp_path, 8, "--max-model-len", "16384", time_scale=0.5, has_limits=False) as (load, engines):
        for _ in range(3):
            await load.all_at_once("asked", 120, shared)
        taken = await served_by(engines)
        records = await records_of(tmp_path, 360)
    assert load.statuses == {200: 360}
    assert max(taken) <= 1.5 * 360 / 8
    cached, asked = (sum(getattr(r, name) for r in records) for name in ("cached_input_tokens", "input_tokens"))
    assert cached >= 0.8 * asked


async def test_a_burst_after_a_pause_is_spread_evenly(tmp_path):
    def longer_than_the_burst(number):
        return chat_body(f"question {number}", max_tokens=600, ignore_eos=True)

    async with yard(tmp_path, 4, time_scale=0.5, has_limits=False) as (load, engines):
        await load.all_at_once("before", 8, short)
        await asyncio.sleep(3.0)
        before = await served_by(engines)
        await load.all_at_once("burst", 160, longer_than_the_burst)
        taken = [after - earlier for earlier, after in zip(before, await served_by(engines), strict=True)]
    assert load.statuses == {200: 168}
    assert max(taken) - min(taken) <= 2


async def test_an_engine_whose_health_lies_costs_no_client_its_answer(tmp_path):
    async with yard(tmp_path, 2, has_limits=False) as (load, engines):
        await load.all_at_once("before", 4, short)
        await call(engines[0].port, "POST", "/fake/faults", {"is_hanging": True})
        assert (await call(engines[0].port, "GET", "/health")).status == 200
        await load.all_at_once("during", 20, short)
        assert load.statuses == {200: 24}
        hung = (await served_by(engines))[0]
        await load.all_at_once("after", 20, short)
        assert load.statuses == {200: 44}
        assert (await served_by(engines))[0] - hung <= 1, "a probe at most"


async def test_an_engine_that_flaps_costs_no_client_its_answer_and_gets_less(tmp_path):
    async with yard(tmp_path, 2, has_limits=False) as (load, engines):
        for _ in range(6):
            # Requests that have begun there break off; those that come find nobody.
            await call(engines[0].port, "POST", "/fake/faults", {"refuse_for_s": 0.4, "reset_after_tokens": 1})
            await load.all_at_once("during", 12, short)
            await asyncio.sleep(0.5)
            await call(engines[0].port, "POST", "/fake/faults", {"reset_after_tokens": None})
        taken = await served_by(engines)
    assert load.statuses == {200: 72}
    assert taken[0] < taken[1]


@pytest.mark.parametrize("fault", [{"metrics_are_stale": True}, {"metrics_are_stale": True, "health_delay_s": 60}])
async def test_an_engine_whose_telemetry_has_stopped_does_not_read_as_idle(tmp_path, fault):
    async with yard(tmp_path, 2, time_scale=0.5, has_limits=False) as (load, engines):
        await call(engines[0].port, "POST", "/fake/faults", fault)
        await asyncio.sleep(2.5)  # longer than a report counts
        await load.all_at_once("asked", 60, short)
        taken = await served_by(engines)
    assert load.statuses == {200: 60}
    assert max(taken) - min(taken) <= 2

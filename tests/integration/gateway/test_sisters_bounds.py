"""A bound of N is N over all processes of a gateway together, as of a second ago."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from tests.support.fake_engines import fake_engine
from tests.support.gateways import authorised, chat_body, without_limits
from tests.support.raw_http import call
from tests.support.sister_processes import MODELS, sister_processes, two_models
from workers.engines.fake.faults import Faults

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"


@asynccontextmanager
async def yard(directory, **tenant):
    async with (
        fake_engine("--served-model-name", MODELS[0]) as first,
        fake_engine("--served-model-name", MODELS[1]) as second,
    ):
        snapshot = without_limits(two_models([first.port], [second.port]))
        endpoints = [msgspec.structs.replace(one, max_running_requests=1) for one in snapshot.endpoints]
        tenants = [msgspec.structs.replace(one, **tenant) for one in snapshot.tenants]
        changed = msgspec.structs.replace(snapshot, endpoints=endpoints, tenants=tenants)
        with sister_processes(directory, changed) as gateway:
            yield gateway, (first, second)


async def ask(gateway, model, headers=None, **fields):
    return await call(gateway.port, "POST", CHAT, chat_body(model=model, **fields), authorised() | (headers or {}))


async def code_within(gateway, model, headers, timeout_s=10):
    """Of the first refusal."""
    async with asyncio.timeout(timeout_s):
        while True:
            answer = await ask(gateway, model, headers, max_tokens=1)
            if answer.status != 200:
                return answer.json()["error"]["code"]
            await asyncio.sleep(0.2)


async def test_what_a_workflow_spends_at_one_process_is_gone_at_the_other(tmp_path):
    headers = {"x-workflow-id": "w", "x-workflow-token-budget": "100"}
    async with yard(tmp_path) as (gateway, _):
        assert (await ask(gateway, MODELS[0], headers, max_tokens=150, ignore_eos=True)).status == 200
        assert await code_within(gateway, MODELS[1], headers) == "workflow_budget"
        other = headers | {"x-workflow-id": "another"}
        assert (await ask(gateway, MODELS[1], other, max_tokens=1)).status == 200


async def test_a_call_that_runs_ends_when_the_budget_is_gone_elsewhere(tmp_path):
    headers = {"x-workflow-id": "w", "x-workflow-token-budget": "100"}
    async with yard(tmp_path) as (gateway, (_, second)):
        second.engine.set_faults(Faults(is_hanging=True))
        running = asyncio.create_task(ask(gateway, MODELS[1], headers))
        await asyncio.sleep(0.5)
        assert (await ask(gateway, MODELS[0], headers, max_tokens=150, ignore_eos=True)).status == 200
        answer = await asyncio.wait_for(running, 15)
        assert answer.json()["error"]["code"] == "workflow_budget"


async def test_what_a_tenant_has_queued_at_one_process_counts_at_the_other(tmp_path):
    async with yard(tmp_path, max_queued_requests=4) as (gateway, both):
        for engine in both:
            engine.engine.set_faults(Faults(is_hanging=True))
        waiting = [asyncio.create_task(ask(gateway, MODELS[0])) for _ in range(1 + 4)]  # one runs
        await asyncio.sleep(3)
        waiting.append(asyncio.create_task(ask(gateway, MODELS[1])))  # it runs, and needs no place
        await asyncio.sleep(0.5)
        refused = await ask(gateway, MODELS[1])
        assert (refused.status, refused.json()["error"]["code"]) == (429, "queue_full")
        for task in waiting:
            assert not task.done()
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

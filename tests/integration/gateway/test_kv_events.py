"""The prefix index knows what engines have cached by their own KV events: through sockets, from engine to decision."""

import asyncio

import pytest

from tests.support.cache_nodes import BLOCK_TOKENS, cache_node, node_before, publishing_engines, quick_checks, sockets
from tests.support.gateways import chat_body
from tests.support.raw_http import call

pytestmark = pytest.mark.integration

STORY = " ".join(f"word{number}" for number in range(900))
BLOCKS_OF_STORY = 900 // BLOCK_TOKENS


async def ask(node, request_id, content=STORY, **fields):
    answer = await node.gateway.call(
        "POST", "/v1/chat/completions", chat_body(content, **fields), headers={"x-request-id": request_id}
    )
    assert answer.status == 200
    return node.hits(request_id)


async def test_what_an_engine_has_cached_draws_the_same_prompt(tmp_path):
    async with cache_node(tmp_path) as node:
        assert await ask(node, "r1") == {}
        await node.has_learned(1)
        [(endpoint_id, tokens)] = (await ask(node, "r2")).items()
        assert tokens > 800
        [first, second] = node.gateway.records()
        assert first.endpoint_id == second.endpoint_id == endpoint_id
        assert second.cached_input_tokens > 800


async def test_after_the_engine_has_cleared_its_cache_nothing_is_claimed(tmp_path):
    async with cache_node(tmp_path) as node:
        await ask(node, "r1")
        await node.has_learned(1)
        assert await ask(node, "r2")
        for engine in node.engines:
            assert (await call(engine.port, "POST", "/reset_prefix_cache")).status == 200
        await node.eventually(lambda: node.cached_blocks() == 0)
        assert await ask(node, "r3") == {}


async def test_what_the_engine_has_evicted_is_not_claimed(tmp_path):
    async with cache_node(tmp_path, 2, "--num-gpu-blocks-override", "640") as node:
        await ask(node, "r1")
        await node.has_learned(1)
        assert await ask(node, "r2")
        for engine in node.engines:
            for number in range(12):
                other = chat_body(" ".join(f"other{number}.{word}" for word in range(900)))
                assert (await call(engine.port, "POST", "/v1/chat/completions", other)).status == 200
        assert await ask(node, "r3") == {}


async def test_what_another_client_warmed_is_claimed(tmp_path):
    async with cache_node(tmp_path) as node:
        await ask(node, "r1")
        await node.has_learned(1)
        for engine in node.engines:
            await call(engine.port, "POST", "/reset_prefix_cache")
        await node.eventually(lambda: node.cached_blocks() == 0)
        warmed = node.engines[1]
        assert (await call(warmed.port, "POST", "/v1/chat/completions", chat_body(STORY))).status == 200
        await node.eventually(lambda: node.cached_blocks() > 0)
        assert list(await ask(node, "r2")) == [node.endpoint_ids[1]]


async def test_a_prompt_that_shares_its_beginning_is_known_as_far_as_that(tmp_path):
    async with cache_node(tmp_path) as node:
        await ask(node, "r1")
        await node.has_learned(1)
        half = STORY[: len(STORY) // 2]
        [tokens] = (await ask(node, "r2", half + " and then something else entirely" * 60)).values()
        assert 300 < tokens < 500


async def test_prompts_of_token_ids_are_understood_without_asking(tmp_path):
    async with cache_node(tmp_path) as node:
        body = {"model": "demo-chat", "prompt": [number % 797 for number in range(2000)], "max_tokens": 4}
        for number in (1, 2):
            headers = {"x-request-id": f"ids-{number}"}
            assert (await node.gateway.call("POST", "/v1/completions", body, headers=headers)).status == 200
            await node.has_learned(1)
        [tokens] = node.hits("ids-2").values()
        assert tokens > 1800


async def test_a_cache_salt_keeps_equal_prompts_apart(tmp_path):
    async with cache_node(tmp_path) as node:
        await ask(node, "r1", cache_salt="one")
        await node.has_learned(1)
        assert await ask(node, "r2", cache_salt="two") == {}
        assert await ask(node, "r3", cache_salt="one")


async def test_batches_that_were_lost_are_asked_for_again(tmp_path):
    with quick_checks():
        async with cache_node(tmp_path) as node:
            for engine in node.engines:
                await call(engine.port, "POST", "/fake/faults", {"kv_events_to_lose": 3})
            await ask(node, "r1")
            await node.has_learned(1)
            await node.eventually(lambda: node.cached_blocks() > 50)
            assert await ask(node, "r2")
            assert set(node.states()) == {"exact"}


async def test_when_events_stop_the_index_is_approximate_and_says_so(tmp_path):
    with quick_checks():
        async with cache_node(tmp_path) as node:
            await ask(node, "r1")
            await node.has_learned(1)
            for engine in node.engines:
                await call(engine.port, "POST", "/fake/faults", {"kv_events_are_silent": True})
            await node.eventually(lambda: set(node.states()) == {"silent"})
            metrics = node.gateway.service.metrics.kv_events.lines()
            assert 'tokenyard_gateway_kv_event_fallbacks_total{reason="silent"} 2\n' in metrics
            estimates = node.gateway.service._build_report().scheduler.endpoints
            assert {estimate.cache_state for estimate in estimates} == {"silent"}
            assert await ask(node, "r2"), "what it said last stands as a guess"
            await ask(node, "r3", STORY[::-1])
            assert await ask(node, "r4", STORY[::-1]), "what was sent since is known by our own count"


async def test_when_events_come_again_the_index_is_exact_again(tmp_path):
    with quick_checks():
        async with cache_node(tmp_path) as node:
            for engine in node.engines:
                await call(engine.port, "POST", "/fake/faults", {"kv_events_are_silent": True})
            await node.eventually(lambda: set(node.states()) == {"silent"})
            await ask(node, "r1")
            for engine in node.engines:
                await call(engine.port, "POST", "/reset_prefix_cache")
                await call(engine.port, "POST", "/fake/faults", {"kv_events_are_silent": False})
            await node.are_exact()
            assert await ask(node, "r2") == {}


async def test_a_gateway_that_starts_again_knows_what_was_cached_before(tmp_path):
    with quick_checks(), sockets(2) as events:
        async with publishing_engines(events, kept_batches=3) as engines:
            remembering = {"caches": tmp_path / "caches"}
            async with node_before(tmp_path, engines, events, **remembering) as node:
                await node.are_exact()
                for number in range(6):
                    await ask(node, f"before-{number}", f"{number} {STORY}")
                await node.has_learned(6)
                await node.eventually(lambda: node.cached_blocks() >= 6 * BLOCKS_OF_STORY)
                known = node.cached_blocks()
                await node.eventually(lambda: len(list((tmp_path / "caches").glob("*.cache"))) == 2)
                await asyncio.sleep(0.5)
            async with node_before(tmp_path, engines, events, **remembering) as node:
                await node.are_exact()
                assert node.cached_blocks() == known
                await ask(node, "after-1", f"0 {STORY}")
                await node.has_learned(1)
                assert await ask(node, "after-2", f"0 {STORY}")


async def test_a_gateway_that_remembers_nothing_of_an_old_engine_says_so_until_that_clears_its_cache(tmp_path):
    with quick_checks(), sockets(2) as events:
        async with publishing_engines(events, kept_batches=1) as engines:
            for engine in engines:
                for number in range(3):
                    body = chat_body(f"{number} {STORY}")
                    assert (await call(engine.port, "POST", "/v1/chat/completions", body)).status == 200
            async with node_before(tmp_path, engines, events) as node:
                await node.eventually(lambda: set(node.states()) == {"partial"})
                await ask(node, "r1", f"0 {STORY}")
                assert await ask(node, "r2", f"0 {STORY}"), "by our own count"
                for engine in engines:
                    await call(engine.port, "POST", "/reset_prefix_cache")
                await node.are_exact()


async def test_another_engine_at_the_same_address_is_not_taken_for_the_old_one(tmp_path):
    with quick_checks(), sockets(2) as events:
        caches = {"caches": tmp_path / "caches"}
        async with publishing_engines(events) as engines, node_before(tmp_path, engines, events, **caches) as node:
            await node.are_exact()
            for number in range(4):
                await ask(node, f"r{number}", f"{number} {STORY}")
            await node.eventually(lambda: len(list((tmp_path / "caches").glob("*.cache"))) == 2)
            await asyncio.sleep(0.5)
        async with publishing_engines(events) as engines, node_before(tmp_path, engines, events, **caches) as node:
            await node.are_exact()
            assert node.cached_blocks() == 0


async def test_apis_whose_tokens_nobody_tells_are_known_by_our_own_count(tmp_path):
    async with cache_node(tmp_path) as node:
        for number in (1, 2):
            body = {"model": "demo-chat", "input": STORY, "max_output_tokens": 4}
            headers = {"x-request-id": f"response-{number}"}
            assert (await node.gateway.call("POST", "/v1/responses", body, headers=headers)).status == 200
        assert node.hits("response-2")


async def test_one_engine_alone_is_not_followed(tmp_path):
    async with cache_node(tmp_path, 1) as node:
        for number in (1, 2):
            assert (await node.gateway.chat(STORY)).status == 200, number
        assert node.states() == [""]
        assert node.gateway.service.metrics.kv_events.lines() == []

"""More of what went wrong in other gateways' limits and metering: each case names the report it comes from."""

import asyncio
import time

import msgspec
import pytest

from tests.integration.gateway.test_bugs_of_others import EIGHT, ROUTES, priced, served, served_by
from tests.support.fake_engines import fake_engine
from tests.support.gateways import authorised, chat_body, running_gateway, snapshot_for
from tests.support.raw_http import parse_response, request_bytes
from tests.support.scripted_engine import scripted_engine, whole
from workers.contracts.limits import LimitRule

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
ANSWER = whole(
    msgspec.json.encode(
        {
            "id": "x",
            "object": "chat.completion",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "a b c"}}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 3},
        }
    )
)
HALF_AN_ANSWER = [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n", *[b" "] * 30]


def rule(kind, amount, limit_id="limit", scope="key", **more):
    return LimitRule(limit_id=limit_id, scope=scope, subject="*", kind=kind, amount=amount, **more)


@pytest.mark.parametrize("path", ROUTES)
async def test_one_call_is_one_record_whatever_the_route(tmp_path, path):
    """BerriAI/litellm#15740: two rows of spend for each answer of one route."""
    async with served(tmp_path) as gateway:
        for is_stream in (False, True):
            await gateway.call("POST", path, ROUTES[path]("hi", stream=is_stream))
        await gateway.wait_for_records(2)
        await gateway.call("POST", path, ROUTES[path]("bye"))
        records = await gateway.wait_for_records(3)
    assert len({record.record_id for record in records}) == len(records) == 3


async def test_a_whole_answer_that_is_tried_again_is_one_record_with_its_waste_beside_what_is_paid(tmp_path):
    """BerriAI/litellm#39455: as many rows as tries, and nothing of what the failed ones had worked."""
    async with (
        scripted_engine(ANSWER) as breaking,
        fake_engine("--served-model-name", "demo-chat", "--max-model-len", "2048") as sound,
    ):
        alone, both = (
            priced(snapshot_for(("demo-chat", 100, ports))) for ports in ([breaking.port], [breaking.port, sound.port])
        )
        async with running_gateway(tmp_path, alone) as gateway:
            assert (await gateway.chat()).status == 200  # its pace is known from now on
            gateway.publish(msgspec.structs.replace(both, generation=2))
            await gateway.wait_for_generation(2)
            breaking.script, breaking.closes = HALF_AN_ANSWER, True
            answers = await asyncio.gather(*(gateway.chat(**EIGHT) for _ in range(8)))
            records = await gateway.wait_for_records(9)
    assert {answer.status for answer in answers} == {200}
    tried_again = [record for record in records if record.attempts > 1]
    assert len(breaking.seen) > 1
    assert tried_again
    for record in tried_again:
        assert (record.outcome, record.output_tokens, record.usage_source) == ("completed", 8, "engine")
        assert record.wasted_tokens > 0
        assert record.cost_pico_usd == record.input_tokens * 10**6 + 8 * 10**8


async def test_two_limits_that_a_request_comes_under_are_each_counted_once(tmp_path):
    """BerriAI/litellm#37789: what two rules named was counted twice, and served half."""
    subjects = (("tenant", ""), ("tenant", "demo-chat"), ("key", ""), ("key", "demo-chat"))
    rules = [
        rule("requests_per_minute", 2, f"limit-{number}", scope, model=model)
        for number, (scope, model) in enumerate(subjects)
    ]
    async with served(tmp_path, *rules) as gateway:
        statuses = [(await gateway.chat(**EIGHT)).status for _ in range(3)]
    assert statuses == [200, 200, 429]


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
async def test_tokens_of_a_model_are_counted_on_every_route_in_streams_too(tmp_path, path, is_stream):
    """BerriAI/litellm#41610, #27001: a model's tokens per minute never counted streams, nor what had no messages."""
    async with served(tmp_path, rule("tokens_per_minute", 60, model="demo-chat")) as gateway:
        body = ROUTES[path]("hi", stream=is_stream)
        statuses = [(await gateway.call("POST", path, body)).status for _ in range(9)]
        served_count = statuses.count(200)
        records = await gateway.wait_for_records(9)
    used = [record.input_tokens + record.output_tokens for record in records if record.status == 200]
    assert statuses == [200] * served_count + [429] * (9 - served_count)
    assert 0 < sum(used) <= 60
    assert sum(used) + max(used) > 60 - max(used)  # one that would fit is let in, but for the estimate of its input


async def test_requests_at_once_do_not_pass_the_tokens_together(tmp_path):
    """BerriAI/litellm#18730: each saw what was left before any had used it."""
    async with served(tmp_path, rule("tokens_per_minute", 40)) as gateway:
        answers = await asyncio.gather(*(gateway.chat("hi", **EIGHT, max_tokens=8) for _ in range(12)))
        records = await gateway.wait_for_records(12)
    assert {answer.status for answer in answers} == {200, 429}
    assert sum(record.input_tokens + record.output_tokens for record in records) <= 40


async def test_what_the_engine_rejects_counts_in_the_minute(tmp_path):
    """BerriAI/litellm#21312: a client that asked nonsense all day came under no limit."""
    async with served(tmp_path, rule("requests_per_minute", 3)) as gateway:
        statuses = [(await gateway.chat("word " * 5000)).status for _ in range(4)]
    assert statuses == [400] * 3 + [429]


async def test_what_an_engine_worked_that_died_over_its_answer_is_waste_and_nobody_pays_for_it(tmp_path):
    """BerriAI/litellm#37365: a request that failed after it was sent left no trace of what it had cost."""
    async with served_by(ANSWER, tmp_path) as (gateway, engine):
        assert (await gateway.chat()).status == 200
        engine.script, engine.closes = HALF_AN_ANSWER, True
        answer = await gateway.chat()
        _, record = await gateway.wait_for_records(2)
    assert answer.status == 502
    assert (record.outcome, record.attempts, record.cost_pico_usd) == ("failed", len(engine.seen) - 1, 0)
    assert record.wasted_tokens > 0


@pytest.fixture
async def connection(tmp_path):
    """A connection that has been used once and stays open, its gateway, and the snapshot."""
    async with fake_engine("--served-model-name", "demo-chat", "--max-model-len", "2048") as engine:
        snapshot = priced(snapshot_for(("demo-chat", 100, [engine.port])))
        async with running_gateway(tmp_path, snapshot) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            assert await ask_on(reader, writer) == 200
            yield reader, writer, gateway, snapshot
            writer.close()


async def ask_on(reader, writer):
    kept = authorised() | {"Connection": "keep-alive"}
    writer.write(request_bytes("POST", CHAT, chat_body(**EIGHT), kept))
    head = await reader.readuntil(b"\r\n\r\n")
    answer = parse_response(head)
    await reader.readexactly(int(answer.header("content-length")))
    return answer.status


async def test_a_key_that_is_gone_is_gone_on_connections_that_it_has_opened(connection):
    """BerriAI/litellm#1775, NdoleStudio/httpsms#881, boxlite-ai/boxlite#1418: a cache knew the key for long after."""
    reader, writer, gateway, snapshot = connection
    keys = [key for key in snapshot.keys if key.tenant_id != "gold"]
    gateway.publish(msgspec.structs.replace(snapshot, generation=2, keys=keys))
    await gateway.wait_for_generation(2)
    assert await ask_on(reader, writer) == 401


async def test_a_key_ends_at_its_time_though_nobody_says_so_again(connection):
    """solana-foundation/solana-developer-platform#897: the end of a rotated key's overlap was read once, and kept."""
    reader, writer, gateway, snapshot = connection
    keys = [msgspec.structs.replace(key, expires_at=time.time() + 1.5) for key in snapshot.keys]
    gateway.publish(msgspec.structs.replace(snapshot, generation=2, keys=keys))
    await gateway.wait_for_generation(2)
    statuses = []
    while time.time() < keys[0].expires_at + 0.5:
        asked_at, status = time.time(), await ask_on(reader, writer)
        statuses.append((asked_at >= keys[0].expires_at, status))
        await asyncio.sleep(0.05)
    assert {status for is_over, status in statuses if is_over} == {401}
    assert statuses[0][0] or statuses[0][1] == 200

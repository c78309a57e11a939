"""Several processes of one gateway, from outside: nobody can tell, whatever they ask for and on which connection."""

import asyncio
import json
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import openai
import pytest

from tests.support.batches import create, ended, jsonl, line, lines_of
from tests.support.fake_engines import fake_engine
from tests.support.gateway_processes import spooled
from tests.support.gateways import KEYS, authorised, chat_body, snapshot_for
from tests.support.raw_http import call, exchange, request_bytes
from tests.support.sister_processes import MODELS, sister_processes, two_models

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
KEPT = {"Connection": "keep-alive"}
HEAD = (
    f"POST {CHAT} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {KEYS['gold']}\r\ncontent-type: application/json\r\n"
).encode()


@asynccontextmanager
async def engines(*options):
    async with (
        fake_engine("--served-model-name", MODELS[0], *options) as first,
        fake_engine("--served-model-name", MODELS[1], *options) as second,
    ):
        yield first, second


@asynccontextmanager
async def yard(directory, *options, processes=2):
    async with engines() as (first, second):
        snapshot = two_models([first.port], [second.port])
        with sister_processes(directory, snapshot, *options, processes=processes) as gateway:
            yield gateway


def chat(model, **fields):
    return chat_body(model=model, **fields)


def asked(model, headers=None, **fields):
    return request_bytes("POST", CHAT, chat(model, **fields), authorised() | KEPT | (headers or {}))


async def read_answer(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    lengths = [text.split(":")[1] for text in head.lower().split("\r\n") if text.startswith("content-length")]
    return head, await reader.readexactly(int(lengths[0]))


async def ask_on(connection, raw):
    reader, writer = connection
    writer.write(raw)
    head, body = await read_answer(reader)
    return int(head.split()[1]), body


def sdk(port):
    return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=KEYS["gold"], max_retries=0)


async def test_the_sdk_asks_two_models_on_kept_connections_and_each_request_is_recorded_once(tmp_path):
    async with yard(tmp_path) as gateway, sdk(gateway.port) as client:
        assert [model.id for model in (await client.models.list()).data] == list(MODELS)
        for turn in range(6):
            for model in MODELS:
                messages = [{"role": "user", "content": f"turn {turn}"}]
                whole = await client.chat.completions.create(model=model, messages=messages, max_tokens=4)
                assert (whole.model, whole.usage.completion_tokens) == (model, 4)
                stream = await client.chat.completions.create(
                    model=model, messages=messages, max_tokens=4, stream=True, stream_options={"include_usage": True}
                )
                events = [event async for event in stream]
                assert events[-1].usage.completion_tokens == 4
        assert await gateway.passed() > 0
    records = spooled(tmp_path)
    assert Counter((record.public_model, record.outcome) for record in records) == {
        (model, "completed"): 12 for model in MODELS
    }
    owners = {record.public_model: record.boot_id for record in records}
    assert len(set(owners.values())) == 2
    assert all(record.boot_id == owners[record.public_model] for record in records)


async def test_a_connection_that_stays_with_one_model_is_passed_once_at_most(tmp_path):
    async with yard(tmp_path) as gateway:
        for model in MODELS:
            connection = await asyncio.open_connection("127.0.0.1", gateway.port)
            for _ in range(10):
                assert (await ask_on(connection, asked(model, max_tokens=2)))[0] == 200
            connection[1].close()
        assert await gateway.passed() <= 2


async def test_pipelined_requests_for_both_models_are_answered_in_their_order(tmp_path):
    models = [MODELS[turn in (1, 2, 5, 8, 9, 10)] for turn in range(12)]
    async with yard(tmp_path) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        raw = b"".join(asked(model, {"X-Request-Id": f"p-{turn}"}) for turn, model in enumerate(models))
        writer.write(raw[:-7])
        await asyncio.sleep(0.2)
        writer.write(raw[-7:])
        answers = [await read_answer(reader) for _ in models]
        writer.close()
        assert [json.loads(body)["model"] for _, body in answers] == models
        assert [f"x-request-id: p-{turn}\r\n" in head for turn, (head, _) in enumerate(answers)] == [True] * 12
        assert await gateway.passed() >= 5


@pytest.mark.parametrize("pieces", [1, 7, 4000])
async def test_large_chunked_and_split_bodies_arrive_whole_at_the_owner(tmp_path, pieces):
    text = "word " * 300 + "x" * 150_000
    async with yard(tmp_path) as gateway:
        for model in MODELS:
            body = json.dumps(chat(model, content=text, max_tokens=1)).encode()
            size = -(-len(body) // pieces) if pieces < 4000 else 40
            parts = [body[at : at + size] for at in range(0, len(body), size)]
            chunked = HEAD + b"transfer-encoding: chunked\r\n\r\n"
            chunked += b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
            connection = await asyncio.open_connection("127.0.0.1", gateway.port)
            status, answer = await ask_on(connection, chunked)
            again = HEAD + b"content-length: %d\r\n\r\n%b" % (len(body), body)
            assert (status, *(await ask_on(connection, again))[:1]) == (200, 200)
            connection[1].close()
            assert json.loads(answer)["usage"]["prompt_tokens"] > 300


async def test_who_waits_for_leave_to_send_a_body_gets_it_once(tmp_path):
    async with yard(tmp_path) as gateway:
        for model in MODELS:
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            body = json.dumps(chat(model)).encode()
            writer.write(HEAD + b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(body))
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(body)
            head, answer = await read_answer(reader)
            writer.close()
            assert head.startswith("HTTP/1.1 200")
            assert json.loads(answer)["model"] == model


async def test_what_needs_no_engine_is_answered_anywhere_and_between_requests_that_are_passed(tmp_path):
    async with yard(tmp_path) as gateway:
        connection = await asyncio.open_connection("127.0.0.1", gateway.port)
        listing = request_bytes("GET", "/v1/models", None, authorised() | KEPT)
        for model in (*MODELS, *MODELS):
            assert (await ask_on(connection, listing))[0] == 200
            assert (await ask_on(connection, asked(model)))[0] == 200
            assert (await ask_on(connection, asked("no-such-model")))[0] == 404
        connection[1].write(request_bytes("HEAD", "/v1/models", None, authorised() | KEPT))
        assert b" 200 " in await connection[0].readuntil(b"\r\n\r\n")
        connection[1].close()
        preflight = {"Origin": "http://a", "Access-Control-Request-Method": "POST"}
        assert (await call(gateway.port, "OPTIONS", CHAT, None, preflight)).status == 200


async def test_errors_are_those_of_one_process(tmp_path):
    async with yard(tmp_path) as gateway:
        for model in MODELS:
            refused = await call(gateway.port, "POST", CHAT, chat(model), {"Authorization": "Bearer ty-wrong"})
            assert (refused.status, refused.json()["error"]["code"]) == (401, "invalid_api_key")
            raw = asked(model) + b"GARBAGE behind it\r\n\r\n"
            answer = await exchange(gateway.port, raw)
            assert answer.status == 200
            assert answer.body.endswith(b'"code":"invalid_http"}}')
        closing = await exchange(gateway.port, request_bytes("POST", CHAT, chat(MODELS[1]), authorised()))
        assert closing.header("connection") == "close"


async def test_all_versions_that_a_route_can_reach_are_decided_on_by_one_process_to_the_exact_split(tmp_path):
    async with engines() as (first, second):
        snapshot = snapshot_for(("model-a", 70, [first.port]), ("model-b", 30, [second.port]))
        with sister_processes(tmp_path, snapshot) as gateway:
            answers = [await call(gateway.port, "POST", CHAT, chat_body(), authorised()) for _ in range(40)]
            assert {answer.status for answer in answers} == {200}
    records = spooled(tmp_path)
    assert sorted(Counter(record.version_id for record in records).values()) == [12, 28]
    assert len({record.boot_id for record in records}) == 1


async def test_a_key_that_is_bound_to_addresses_is_judged_by_its_clients_own(tmp_path):
    async with engines() as (first, second):
        snapshot = two_models([first.port], [second.port])
        for networks, status in ((["127.0.0.0/8"], 200), (["10.0.0.0/8"], 403)):
            keys = [msgspec.structs.replace(key, networks=networks) for key in snapshot.keys]
            with sister_processes(tmp_path, msgspec.structs.replace(snapshot, keys=keys)) as gateway:
                connection = await asyncio.open_connection("127.0.0.1", gateway.port)
                for model in (*MODELS, *MODELS):
                    assert (await ask_on(connection, asked(model)))[0] == status
                connection[1].close()
                assert await gateway.passed() > 0


def descriptors_of(gateway):
    return {number: len(list(Path(f"/proc/{pid}/fd").iterdir())) for number, pid in gateway.pids().items()}


async def test_descriptors_that_were_passed_are_closed_with_their_connections(tmp_path):
    async with yard(tmp_path) as gateway:
        for model in MODELS:
            await call(gateway.port, "POST", CHAT, chat(model), authorised())
        before = descriptors_of(gateway)
        for _ in range(30):
            connection = await asyncio.open_connection("127.0.0.1", gateway.port)
            for model in (*MODELS, *MODELS):
                await ask_on(connection, asked(model, max_tokens=1))
            connection[1].close()
        for _ in range(100):
            if all(count <= before[number] + 3 for number, count in descriptors_of(gateway).items()):
                break
            await asyncio.sleep(0.05)
        assert all(count <= before[number] + 3 for number, count in descriptors_of(gateway).items())
        assert await gateway.passed() >= 60


async def test_a_batch_has_its_items_answered_by_the_owners_of_their_models(tmp_path):
    items = [line(f"item-{number}", chat(MODELS[number % 2], max_tokens=3)) for number in range(10)]
    async with yard(tmp_path, "--batches", str(tmp_path / "batches")) as gateway, sdk(gateway.port) as client:
        batch = await ended(client, await create(client, jsonl(items)))
        assert (batch.status, batch.request_counts.completed) == ("completed", 10)
        answers = await lines_of(client, batch.output_file_id)
        assert [answer["custom_id"] for answer in answers] == [f"item-{number}" for number in range(10)]
        assert [answer["response"]["body"]["model"] for answer in answers] == [MODELS[n % 2] for n in range(10)]
    records = spooled(tmp_path)
    assert len({record.record_id for record in records}) == len(records) == 10
    assert {record.service_class for record in records} == {"batch"}

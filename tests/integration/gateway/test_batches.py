"""Files and batches by the openai SDK: what comes back, what is recorded, what is refused."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import openai
import pytest

from tests.support.batches import (
    CHAT,
    chats,
    create,
    ended,
    item_records,
    jsonl,
    line,
    lines_of,
    sdk,
    upload,
)
from tests.support.fake_engines import fake_engine
from tests.support.gateways import authorised, chat_body, running_gateway, snapshot_for
from tests.support.raw_http import call, exchange, request_bytes
from workers.gateway.batches.api import Limits
from workers.gateway.batches.store import Store

pytestmark = pytest.mark.integration


@asynccontextmanager
async def served(tmp_path, *options, **config):
    async with fake_engine("--served-model-name", "demo-chat", *options) as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        gateway_with_batches = running_gateway(tmp_path, snapshot, batches=tmp_path / "batches", **config)
        async with gateway_with_batches as gateway, sdk(gateway.port) as client:
            yield engine, gateway, client


async def test_each_item_is_answered_once_and_recorded_once(tmp_path):
    async with served(tmp_path) as (_, gateway, client):
        batch_id = await create(client, chats(40), metadata={"job": "nightly"})
        batch = await ended(client, batch_id)
        assert (batch.status, batch.metadata) == ("completed", {"job": "nightly"})
        assert (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed) == (40, 40, 0)
        output = await lines_of(client, batch.output_file_id)
        records = item_records(gateway)
    assert [one["custom_id"] for one in output] == [f"item-{number}" for number in range(40)]
    assert batch.error_file_id is None
    for one in output:
        record = records[one["custom_id"]]
        assert one["response"]["status_code"] == 200
        assert one["error"] is None
        assert one["response"]["request_id"] == record.request_id
        assert one["response"]["body"]["usage"]["completion_tokens"] == record.output_tokens > 0
        assert batch.created_at <= record.arrived_at + 1 < batch.completed_at + 2
        assert (record.tags["batch_id"], record.service_class, record.outcome) == (batch_id, "batch", "completed")


async def test_items_that_the_engine_refuses_are_in_the_error_file(tmp_path):
    async with served(tmp_path) as (_, gateway, client):
        bad = chat_body(temperature="hot")
        batch = await ended(client, await create(client, jsonl([line("good"), line("bad", bad)])))
        [good], [error] = await lines_of(client, batch.output_file_id), await lines_of(client, batch.error_file_id)
        records = item_records(gateway)
    assert (batch.status, batch.request_counts.completed, batch.request_counts.failed) == ("completed", 1, 1)
    assert (good["custom_id"], error["custom_id"]) == ("good", "bad")
    assert error["response"]["status_code"] == 400
    assert "temperature" in error["response"]["body"]["error"]["message"]
    assert (records["bad"].outcome, records["bad"].output_tokens) == ("rejected", 0)


@pytest.mark.parametrize(
    ("lines", "code", "number", "param"),
    [
        ([line("a"), "nonsense"], "invalid_json_line", 2, None),
        ([line("a"), line("a")], "duplicate_custom_id", 2, "custom_id"),
        ([line("")], "missing_required_parameter", 1, "custom_id"),
        ([line("a"), line("\ud800")], "missing_required_parameter", 2, "custom_id"),
        ([line("a", method="GET")], "invalid_method", 1, "method"),
        ([line("a", url="/v1/completions")], "invalid_url", 1, "url"),
        ([line("a", {"messages": []})], "invalid_request", 1, "body.model"),
        ([line("a", chat_body(stream=True))], "invalid_request", 1, "body.stream"),
        ([line("a", {"model": "gpt-none"})], "model_not_found", 1, "body.model"),
        ([], "empty_file", None, None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_wrong_line_fails_the_batch_before_anything_runs(tmp_path, lines, code, number, param):
    async with served(tmp_path) as (_, gateway, client):
        batch = await ended(client, await create(client, jsonl(lines) or b"\n"))
        assert batch.status == "failed"
        [error] = batch.errors.data
        assert (error.code, error.line, error.param) == (code, number, param)
        assert error.message
        assert batch.failed_at is not None
        assert item_records(gateway) == {}


async def test_completions_and_responses_run_too(tmp_path):
    async with served(tmp_path) as (_, _, client):
        body = {"model": "demo-chat", "prompt": "The sky is", "max_tokens": 4}
        content = jsonl([line("a", body, url="/v1/completions")])
        first = await ended(client, await create(client, content, endpoint="/v1/completions"))
        content = jsonl([line("a", {"model": "demo-chat", "input": "hi"}, url="/v1/responses")])
        second = await ended(client, await create(client, content, endpoint="/v1/responses"))
        [completion] = await lines_of(client, first.output_file_id)
        [response] = await lines_of(client, second.output_file_id)
    assert completion["response"]["body"]["object"] == "text_completion"
    assert response["response"]["body"]["object"] == "response"


async def test_a_cancelled_batch_keeps_what_was_answered(tmp_path):
    async with served(tmp_path, "--time-scale", "1") as (_, gateway, client):
        batch_id = await create(client, chats(300, max_tokens=20))
        await reached_some(client, batch_id)
        assert (await client.batches.cancel(batch_id)).status == "cancelling"
        batch = await ended(client, batch_id)
        output, errors = await lines_of(client, batch.output_file_id), await lines_of(client, batch.error_file_id)
        records = item_records(gateway)
        with pytest.raises(openai.ConflictError) as refusal:
            await client.batches.cancel(await ended_batch(client))
    assert refusal.value.code == "batch_finished"
    assert (batch.status, batch.cancelled_at is not None) == ("cancelled", True)
    assert {error["error"]["code"] for error in errors} == {"batch_cancelled"}
    assert 0 < len(output) < 300
    assert len(output) + len(errors) == 300 == batch.request_counts.completed + batch.request_counts.failed
    assert set(records) == {one["custom_id"] for one in output}


async def test_a_tenant_with_as_many_unfinished_batches_as_it_may_have_waits_for_one(tmp_path):
    async with served(tmp_path, "--time-scale", "1") as (_, gateway, client):
        gateway.service._batches._api._limits = Limits(max_unfinished_batches=1)
        await create(client, chats(300, max_tokens=20))
        with pytest.raises(openai.RateLimitError) as refusal:
            await create(client.with_options(max_retries=0), chats(1))
    assert (refusal.value.code, refusal.value.response.headers["retry-after"]) == ("too_many_batches", "60")


async def test_while_the_disk_keeps_nothing_files_and_batches_are_refused_and_models_answer(tmp_path, monkeypatch):
    def fail(store, *asked, **narrowed):
        raise OSError("no space left on device")

    async with served(tmp_path) as (_, gateway, client):
        monkeypatch.setattr(Store, "list_files", fail)
        with pytest.raises(openai.InternalServerError) as refusal:
            await client.with_options(max_retries=0).files.list()
        answer = await gateway.chat(max_tokens=1)
    assert (refusal.value.status_code, refusal.value.code) == (503, "storage_unavailable")
    assert answer.status == 200


async def reached_some(client, batch_id):
    while not (await client.batches.retrieve(batch_id)).request_counts.completed:  # noqa: ASYNC110 - as clients do
        await asyncio.sleep(0.02)


async def ended_batch(client):
    batch_id = await create(client, chats(1))
    await ended(client, batch_id)
    return batch_id


async def test_a_batch_goes_on_where_a_stopped_gateway_left_it(tmp_path):
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "0.5") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        first = running_gateway(tmp_path, snapshot, batches=tmp_path / "batches", grace_s=0.2)
        async with first as gateway, sdk(gateway.port) as client:
            batch_id = await create(client, chats(150))
            await reached_some(client, batch_id)
        second = running_gateway(tmp_path, snapshot, batches=tmp_path / "batches")
        async with second as gateway, sdk(gateway.port) as client:
            batch = await ended(client, batch_id)
            output = await lines_of(client, batch.output_file_id)
            records = item_records(gateway)
    assert (batch.status, batch.request_counts.completed) == ("completed", 150)
    assert set(records) == {one["custom_id"] for one in output}
    assert len(output) == 150


# -- whose they are


async def test_a_teammate_sees_files_and_batches_and_a_stranger_does_not(tmp_path):
    async with served(tmp_path) as (_, gateway, owner):
        snapshot = gateway.service._surface.directory.snapshot
        other_key = msgspec.structs.replace(snapshot.keys[1], tenant_id="gold")
        batch_id = await create(owner, chats(1))
        batch = await ended(owner, batch_id)
        ids = (batch.input_file_id, batch.output_file_id)
        async with sdk(gateway.port, "standard") as stranger:
            for file_id in ids:
                for ask in (stranger.files.retrieve, stranger.files.content, stranger.files.delete):
                    with pytest.raises(openai.NotFoundError) as refusal:
                        await ask(file_id)
                    assert refusal.value.code == "file_not_found"
            with pytest.raises(openai.NotFoundError):
                await stranger.batches.create(input_file_id=ids[0], endpoint=CHAT, completion_window="24h")
            for ask in (stranger.batches.retrieve, stranger.batches.cancel):
                with pytest.raises(openai.NotFoundError) as refusal:
                    await ask(batch_id)
                assert refusal.value.code == "batch_not_found"
            assert (await stranger.files.list()).data == []
            assert (await stranger.batches.list()).data == []
        gateway.publish(
            msgspec.structs.replace(snapshot, generation=2, keys=[snapshot.keys[0], other_key, snapshot.keys[2]])
        )
        await gateway.wait_for_generation(2)
        async with sdk(gateway.port, "standard") as teammate:
            assert {file.id for file in (await teammate.files.list()).data} == set(ids)
            assert [batch.id for batch in (await teammate.batches.list()).data] == [batch_id]
            assert (await teammate.files.content(ids[1])).text


async def test_without_a_key_there_is_nothing(tmp_path):
    async with served(tmp_path) as (_, gateway, _):
        for path in ("/v1/files", "/v1/batches"):
            answer = await call(gateway.port, "GET", path, headers={"Authorization": "Bearer ty-no"})
            assert answer.status == 401


# -- files


async def test_a_file_comes_back_byte_for_byte(tmp_path):
    content = b'{"a": "\xff\x00"}\r\n--boundary--\r\n' * 40_000
    async with served(tmp_path) as (_, _, client):
        file = await client.files.create(file=("in put.jsonl", content), purpose="batch")
        assert (file.bytes, file.filename, file.purpose, file.status) == (
            len(content), "in put.jsonl", "batch", "processed",
        )  # fmt: skip
        assert file.expires_at == file.created_at + 30 * 24 * 3600
        assert (await client.files.content(file.id)).content == content
        assert (await client.files.retrieve(file.id)).id == file.id
        assert (await client.files.delete(file.id)).deleted
        with pytest.raises(openai.NotFoundError):
            await client.files.content(file.id)
    assert list((tmp_path / "batches" / "files").iterdir()) == []


async def test_lists_come_in_pages(tmp_path):
    async with served(tmp_path) as (_, _, client):
        ids = [await upload(client, b"x\n") for _ in range(5)]
        assert [file.id async for file in client.files.list(limit=2)] == ids[::-1]
        assert [file.id async for file in client.files.list(limit=2, order="asc")] == ids
        assert (await client.files.list(purpose="batch_output")).data == []
        batches = [
            (await client.batches.create(input_file_id=ids[0], endpoint=CHAT, completion_window="24h")).id
            for _ in range(3)
        ]
        page = await client.batches.list(limit=2)
        assert page.has_more
        assert [batch.id async for batch in client.batches.list(limit=2)] == batches[::-1]


async def test_a_file_that_a_batch_reads_stays(tmp_path):
    async with served(tmp_path, "--time-scale", "1") as (_, _, client):
        file_id = await upload(client, chats(50))
        batch = await client.batches.create(input_file_id=file_id, endpoint=CHAT, completion_window="24h")
        with pytest.raises(openai.ConflictError) as refusal:
            await client.files.delete(file_id)
        assert refusal.value.code == "file_in_use"
        await client.batches.cancel(batch.id)
        await ended(client, batch.id)
        assert (await client.files.delete(file_id)).deleted


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"endpoint": "/v1/audio/speech"}, "endpoint"),
        ({"completion_window": "1h"}, "completion_window"),
        ({"input_file_id": 7}, "input_file_id"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"metadata": {str(number): "x" for number in range(17)}}, "metadata"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 1}}, "output_expires_after"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_batch_that_makes_no_sense_is_refused(tmp_path, fields, param):
    async with served(tmp_path) as (_, gateway, client):
        body = {"input_file_id": await upload(client, chats(1)), "endpoint": CHAT, "completion_window": "24h"}
        answer = await gateway.call("POST", "/v1/batches", body | fields)
    assert answer.status == 400
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize("body", [b"", b"[", b"[]", b"null", b'{"input_file_id": "\\ud800"}', b"[" * 100_000])
async def test_any_body_gets_an_answer(tmp_path, body):
    async with served(tmp_path) as (_, gateway, _):
        for path in ("/v1/batches", "/v1/files"):
            head = request_bytes("POST", path, None, authorised() | {"Content-Length": str(len(body))})
            answer = await exchange(gateway.port, head + body)
            assert answer.status in (400, 404)


async def test_other_paths_and_methods_are_refused(tmp_path):
    async with served(tmp_path) as (_, gateway, _):
        answers = {
            (method, path): (await gateway.call(method, path)).status
            for method, path in [
                ("PUT", "/v1/files"),
                ("GET", "/v1/files/x/y"),
                ("GET", "/v1/batches/x/cancel"),
                ("GET", "/v1/files?limit=0"),
                ("GET", "/v1/files?limit=" + "9" * 500),
                ("GET", "/v1/files?order=up"),
                ("GET", "/v1/files?after=none"),
                ("GET", "/v1/batches?limit=101"),
                ("GET", "/v1/files/%00"),
                ("GET", "/v1/files//content"),
                ("GET", "/v1/files/../../etc/passwd"),
            ]
        }
    assert list(answers.values()) == [405, 404, 405, 400, 400, 400, 404, 400, 404, 404, 404]


async def test_without_a_directory_there_are_no_such_paths(tmp_path):
    async with running_gateway(tmp_path, snapshot_for(("demo-chat", 100, []))) as gateway:
        answer = await gateway.call("GET", "/v1/files")
    assert (answer.status, answer.json()["error"]["code"]) == (404, "unknown_url")

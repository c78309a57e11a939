"""Files on their way in: larger than any other body, through little memory, and refused with a clear word."""

import asyncio
import json
import re
from contextlib import asynccontextmanager
from pathlib import Path

import openai
import pytest

from tests.support.batches import ended, item_records, jsonl, line, lines_of, sdk, upload
from tests.support.fake_engines import fake_engine
from tests.support.gateways import authorised, chat_body, running_gateway, snapshot_for
from tests.support.raw_http import parse_response

pytestmark = pytest.mark.integration

MIB = 1024 * 1024
HEAD = b'--xx\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--xx\r\nContent-Disposition: form-data;'
HEAD += b' name="file"; filename="in.jsonl"\r\n\r\n'
TAIL = b"\r\n--xx--\r\n"


@asynccontextmanager
async def served(tmp_path, **config):
    async with fake_engine("--served-model-name", "demo-chat") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        async with running_gateway(tmp_path, snapshot, batches=tmp_path / "batches", **config) as gateway:
            yield gateway


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def upload_head(*headers, key="gold"):
    lines = [f"{name}: {value}" for name, value in authorised(key).items()] if key else []
    lines = ["POST /v1/files HTTP/1.1", "Host: a", "Content-Type: multipart/form-data; boundary=xx", *lines, *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


async def send_piece_by_piece(port, head, pieces):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
    except ConnectionError:
        pass
    answer = await asyncio.wait_for(reader.read(-1), 60)
    writer.close()
    return parse_response(answer)


def files_of(tmp_path):
    return sorted(path.name for path in (tmp_path / "batches" / "files").glob("*"))


async def wait_for_no_files(tmp_path):
    for _ in range(200):
        if not files_of(tmp_path):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(files_of(tmp_path))


async def test_a_large_file_goes_to_the_disk_and_not_to_memory(tmp_path):
    block = b"x" * (MIB - 1) + b"\n"
    size = 96 * MIB
    async with served(tmp_path) as gateway:
        before = resident_bytes()
        peaks = []

        async def pieces():
            for _ in range(96):
                yield block
                peaks.append(resident_bytes())

        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        length = len(HEAD) + size + len(TAIL)
        writer.write(upload_head(f"Content-Length: {length}", "Connection: close") + HEAD)
        async for piece in pieces():
            writer.write(piece)
            await writer.drain()
        writer.write(TAIL)
        answer = parse_response(await asyncio.wait_for(reader.read(-1), 60))
        writer.close()
        [name] = files_of(tmp_path)
        assert (answer.status, answer.json()["bytes"], answer.json()["id"]) == (200, size, name)
        assert (tmp_path / "batches" / "files" / name).stat().st_size == size
        assert max(peaks) - before < 24 * MIB


async def test_a_batch_of_more_than_any_other_body_may_be_runs(tmp_path):
    padding = "y" * (400 * 1024)
    content = jsonl([line(f"item-{number}", chat_body("hi", x_padding=padding)) for number in range(100)])
    assert len(content) > 32 * MIB
    async with served(tmp_path) as gateway, sdk(gateway.port) as client:
        file_id = await upload(client, content)
        batch = await client.batches.create(
            input_file_id=file_id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        batch = await ended(client, batch.id, 60)
        output = await lines_of(client, batch.output_file_id)
        assert (batch.status, batch.request_counts.completed, len(output)) == ("completed", 100, 100)
        assert len(item_records(gateway)) == 100


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_file_over_the_limit_is_refused_with_the_limit_and_leaves_nothing(tmp_path, is_chunked):
    async with served(tmp_path, max_file_bytes=MIB) as gateway:
        block = b"z" * 65536
        pieces = [HEAD, *[block] * 40, TAIL]
        if is_chunked:
            pieces = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces] + [b"0\r\n\r\n"]
            head = upload_head("Transfer-Encoding: chunked")
        else:
            head = upload_head(f"Content-Length: {sum(map(len, pieces))}")
        answer = await send_piece_by_piece(gateway.port, head, pieces)
        assert (answer.status, answer.json()["error"]["code"]) == (413, "file_too_large")
        assert "1 MiB" in answer.json()["error"]["message"]
        await wait_for_no_files(tmp_path)


async def test_the_sdk_reads_the_refusal_too(tmp_path):
    async with served(tmp_path, max_file_bytes=MIB) as gateway, sdk(gateway.port) as client:
        with pytest.raises(openai.APIStatusError) as refusal:
            await upload(client, b"z" * (8 * MIB))
        assert refusal.value.status_code == 413


@pytest.mark.parametrize("key", ["", "wrong"])
async def test_nobody_without_a_key_writes_to_the_disk(tmp_path, key):
    headers = [f"Authorization: Bearer {key}"] if key else []
    async with served(tmp_path) as gateway:
        for size in (1000, 64 * MIB):
            pieces = [HEAD, *[b"z" * 65536] * min(size // 65536, 40), TAIL] if size > MIB else [HEAD, b"z", TAIL]
            length = size if size > MIB else sum(map(len, pieces))
            head = upload_head(f"Content-Length: {length}", "Connection: close", *headers, key="")
            answer = await send_piece_by_piece(gateway.port, head, pieces)
            assert answer.status == 401
        assert not (tmp_path / "batches" / "files").exists() or files_of(tmp_path) == []


async def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(tmp_path):
    async with served(tmp_path) as gateway:
        _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(upload_head("Content-Length: 10000000") + HEAD + b"z" * 3_000_000)
        await writer.drain()
        for _ in range(500):
            if files_of(tmp_path):
                break
            await asyncio.sleep(0.01)
        assert files_of(tmp_path)
        writer.transport.abort()
        await wait_for_no_files(tmp_path)
        assert gateway.service._batches._api.room._bytes == {}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (HEAD + b"x" + TAIL.replace(b"--xx--", b"--xx"), "invalid_form"),
        (HEAD.replace(b"batch", b"poems") + b"x" + TAIL, "invalid_request"),
        (HEAD + TAIL, "invalid_request"),
        (b"nonsense", "invalid_form"),
        (b"", "invalid_form"),
    ],
    ids=["no end", "another purpose", "an empty file", "no form", "nothing"],
)
async def test_a_wrong_upload_says_why_and_the_connection_lives(tmp_path, body, code):
    async with served(tmp_path) as gateway:
        raw = upload_head(f"Content-Length: {len(body)}") + body
        last = b"GET /v1/models HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
        last += f"Authorization: {authorised()['Authorization']}\r\n\r\n".encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(raw + last)
        answers = await asyncio.wait_for(reader.read(-1), 20)
        writer.close()
        assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"400", b"200"]
        assert f'"code":"{code}"'.encode() in answers
        await wait_for_no_files(tmp_path)


async def test_what_a_tenant_may_keep_counts_what_is_arriving(tmp_path):
    close = "Connection: close"
    async with served(tmp_path) as gateway:
        gateway.service._batches._api.room._max_bytes = 4 * MIB
        bodies = [HEAD + b"z" * 3 * MIB + TAIL] * 2
        heads = [upload_head(f"Content-Length: {len(body)}", close) for body in bodies]
        sending = [send_piece_by_piece(gateway.port, head, [body]) for head, body in zip(heads, bodies, strict=True)]
        answers = await asyncio.gather(*sending)
        assert sorted(answer.status for answer in answers) in ([200, 403], [403, 403])
        refused = [answer for answer in answers if answer.status == 403]
        assert {json.loads(answer.body)["error"]["code"] for answer in refused} == {"storage_limit"}
        small = HEAD + b"z" * 10 + TAIL
        again = await send_piece_by_piece(gateway.port, upload_head(f"Content-Length: {len(small)}", close), [small])
        assert again.status == 200

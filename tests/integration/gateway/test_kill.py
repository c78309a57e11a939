"""A gateway that is killed loses no record and counts none twice."""

import asyncio
import contextlib
import os
import signal
from collections import Counter
from itertools import groupby

import pytest

from tests.support.fake_engines import fake_engine, free_port
from tests.support.gateway_processes import gateway_process, spooled
from tests.support.gateways import authorised, chat_body, running_gateway, snapshot_for
from tests.support.raw_http import call
from workers.contracts.journal import read_journal
from workers.contracts.salvage import salvage_all
from workers.gateway.http.upstream import UpstreamConnection

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
ROUNDS = 3
# What an engine generates after the gateway last read, and before it sees that nobody is there any more.
UNREAD_TOKENS = 40


async def ask_without_end(port, round_number, number, answered):
    """Whole answers and streams, short ones and long, until the gateway is gone."""
    for turn in range(10_000):
        request_id = f"k{round_number}-{number}-{turn}"
        max_tokens = 400 if number % 3 == 0 else 4
        body = chat_body(stream=turn % 2 == 0 or number % 3 == 0, max_tokens=max_tokens, ignore_eos=True)
        answer = await call(port, "POST", CHAT, body, authorised() | {"X-Request-Id": request_id})
        if answer.body.endswith((b"data: [DONE]\n\n", b"}")):
            answered.add(request_id)


async def kill_under_load(process, port, round_number):
    """Ids of the requests whose answers came whole."""
    answered = set()
    clients = [asyncio.create_task(ask_without_end(port, round_number, number, answered)) for number in range(12)]
    while len(answered) < 60:  # noqa: ASYNC110 - a set has no event
        await asyncio.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    with contextlib.suppress(Exception):
        await asyncio.gather(*clients)
    for client in clients:
        client.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    return answered


async def engine_ledger(engine, timeout_s=10):
    """By request id, once the engine has noticed everybody who left."""
    for _ in range(timeout_s * 10):
        entries = (await call(engine.port, "GET", "/fake/requests")).json()["requests"]
        if all(entry["ended_at"] for entry in entries):
            break
        await asyncio.sleep(0.1)
    return {entry["request_id"].removeprefix("chatcmpl-"): entry for entry in entries}


async def test_killed_again_and_again_under_load_it_counts_every_request_once_and_to_the_token(tmp_path):
    answered = set()
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "0.5") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        for round_number in range(ROUNDS):
            port = free_port()
            with gateway_process(tmp_path, snapshot, port) as process:
                answered |= await kill_under_load(process, port, round_number)
        ledger = await engine_ledger(engine)
    salvage_all(tmp_path / "spool")
    records = spooled(tmp_path)
    assert Counter(record.request_id for record in records).most_common(1)[0][1] == 1
    recorded = {record.request_id: record for record in records}
    assert answered <= set(recorded)
    assert set(ledger) <= set(recorded)
    assert {record.error_code for record in records if record.outcome == "failed"} == {"gateway_died"}
    for boot_id, of_boot in groupby(records, key=lambda record: record.boot_id):
        sequences = [record.sequence for record in of_boot]
        assert sequences == list(range(1, len(sequences) + 1)), boot_id
    compare_tokens(ledger, recorded)


def compare_tokens(ledger, recorded):
    cut_streams = 0
    for request_id, entry in ledger.items():
        record = recorded[request_id]
        if record.outcome == "completed":
            assert record.output_tokens == entry["completion_tokens"]
        elif record.usage_source == "engine":
            cut_streams += 1
            assert record.input_tokens == entry["prompt_tokens"]
            assert record.output_tokens <= entry["completion_tokens"] <= record.output_tokens + UNREAD_TOKENS
    assert cut_streams > 0


async def test_what_a_client_has_read_of_a_stream_is_in_its_record_to_the_token(tmp_path):
    port = free_port()
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "2") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        with gateway_process(tmp_path, snapshot, port) as process:
            body = chat_body(stream=True, max_tokens=1000, ignore_eos=True)
            asked = asyncio.create_task(call(port, "POST", CHAT, body, authorised()))
            await asyncio.sleep(1.0)
            os.kill(process.pid, signal.SIGSTOP)  # so that all it has passed on is read
            await asyncio.sleep(0.2)
            os.kill(process.pid, signal.SIGKILL)
            answer = await asked
    salvage_all(tmp_path / "spool")
    [record] = spooled(tmp_path)
    read_tokens = len("".join(event["choices"][0]["delta"].get("content", "") for event in answer.events()).split())
    assert record.output_tokens == read_tokens > 3
    assert (record.status, record.outcome) == (200, "failed")


async def test_the_next_gateway_settles_what_the_last_one_could_not(tmp_path):
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "2") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        port = free_port()
        with gateway_process(tmp_path, snapshot, port) as process:
            asked = asyncio.create_task(call(port, "POST", CHAT, chat_body(max_tokens=900), authorised()))
            await asyncio.sleep(0.5)
            process.kill()
            with contextlib.suppress(OSError, IndexError):
                await asked
        with gateway_process(tmp_path, snapshot, free_port()):
            [record] = spooled(tmp_path)
            [_of_the_living] = (tmp_path / "spool").glob("*.journal")
    assert (record.error_code, record.usage_source) == ("gateway_died", "estimated")


@pytest.mark.parametrize("fields", [{}, {"stream": True}])
async def test_what_an_engine_is_asked_stands_in_the_journal_before(tmp_path, monkeypatch, fields):
    """A write goes out at once: a gateway that is killed right after it must have noted for whom that was."""
    noted = []
    ask = UpstreamConnection.ask

    def watched_ask(connection, message, reader):
        if message.startswith(b"POST"):
            [journal] = (tmp_path / "spool").glob("*.journal")
            noted.append([item.settlement.attempts for item in read_journal(journal.read_bytes()).interrupted])
        ask(connection, message, reader)

    monkeypatch.setattr(UpstreamConnection, "ask", watched_ask)
    async with (
        fake_engine("--served-model-name", "demo-chat") as engine,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine.port]))) as gateway,
    ):
        for _ in range(3):  # over a new connection, then over a kept one
            assert (await gateway.chat(max_tokens=2, **fields)).status == 200
    assert noted == [[1]] * 3

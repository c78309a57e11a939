"""A gateway that dies at any point of a batch: each item is answered once, and billed as it was answered."""

import asyncio
import itertools
import json
import signal
import subprocess
import sys

import msgspec
import pytest

from tests.support.batch_node import Killed, Node, hand_in
from tests.support.batches import chats, create, ended, lines_of, sdk
from tests.support.fake_engines import fake_engine, free_port, wait_for_port
from tests.support.gateways import snapshot_for
from workers.contracts.spool import decode_lines, list_segments
from workers.gateway.batches.errands import ids_of
from workers.gateway.batches.store import Store

pytestmark = pytest.mark.integration

ITEMS = 5


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


@pytest.fixture
def batch(node):
    return hand_in(node, items=ITEMS)


def billed(node):
    """The first record of each id, as the ledger keeps it."""
    ledger = {}
    for record in node.spool:
        ledger.setdefault(record.record_id, record)
    return ledger


STEPS = ["keep_answers", "write_record", "note_recorded", "move", "list_unfinished", "pending_items", "has_unrecorded"]


@pytest.mark.parametrize("occurrence", [1, 2, 3])
@pytest.mark.parametrize("step", [f"{when} {name}" for name in STEPS for when in ("before", "after")])
async def test_death_at_any_step_loses_nothing_and_doubles_nothing(node, batch, step, occurrence):
    steps = itertools.count(1)
    node.is_fatal = lambda name: name == step and next(steps) == occurrence

    async def is_finished(store):
        return (await store.call(Store.get_batch, "t", batch.batch_id)).is_finished

    for _ in range(2):
        try:
            await node.run_gateway(is_finished)
        except Killed:
            node.is_fatal = None
    store = Store(node.directory)
    found = store.get_batch("t", batch.batch_id)
    output = store.path_of(found.output_file_id).read_bytes().splitlines()
    assert store.kept_by("t")[0] == 2
    store.close()
    assert (found.status, found.counts.completed, found.counts.failed) == ("completed", ITEMS, 0)
    answers = [json.loads(line) for line in output]
    assert [answer["custom_id"] for answer in answers] == [f"item-{number}" for number in range(ITEMS)]
    ledger = billed(node)
    assert len(ledger) == ITEMS
    for number, answer in enumerate(answers):
        record = ledger[ids_of(batch, number).record_id]
        assert answer["response"]["body"]["tokens"] == record.output_tokens


@pytest.mark.parametrize("cut", ["the output is written", "all is written"])
async def test_a_batch_that_was_being_finished_is_finished(node, batch, cut, monkeypatch):
    def finish_cut(self, *args):
        if cut == "all is written":
            finish(self, *args)
        raise Killed

    finish = Store.finish
    monkeypatch.setattr(Store, "finish", finish_cut)

    async def is_finished(store):
        return (await store.call(Store.get_batch, "t", batch.batch_id)).is_finished

    with pytest.raises(Killed):
        await node.run_gateway(is_finished)
    monkeypatch.setattr(Store, "finish", finish)
    await node.run_gateway(is_finished)
    store = Store(node.directory)
    found = store.get_batch("t", batch.batch_id)
    assert found.status == "completed"
    assert len(store.path_of(found.output_file_id).read_bytes().splitlines()) == ITEMS
    assert store.kept_by("t")[0] == 2
    store.close()


def gateway_process(tmp_path, port, admin_port):
    arguments = ["--snapshot", tmp_path / "snapshot.json", "--spool", tmp_path / "spool"]
    arguments += ["--batches", tmp_path / "batches", "--port", port, "--admin-port", admin_port]
    command = [sys.executable, "-m", "workers.gateway", *map(str, arguments)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_for_port(port, process)
    return process


async def test_kill_9_again_and_again_under_load(tmp_path):
    items = 120
    port, admin_port = free_port(), free_port()
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "0.5") as engine, sdk(port) as client:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        (tmp_path / "snapshot.json").write_bytes(msgspec.json.encode(snapshot))
        process = await asyncio.to_thread(gateway_process, tmp_path, port, admin_port)
        try:
            batch_id = await create(client, chats(items))
            for _ in range(3):
                await asyncio.sleep(0.15)
                process.kill()
                process.wait(timeout=10)
                process = await asyncio.to_thread(gateway_process, tmp_path, port, admin_port)
            batch = await ended(client, batch_id, timeout_s=60)
            output = await lines_of(client, batch.output_file_id)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=20)
    assert (batch.status, batch.request_counts.completed) == ("completed", items)
    assert [one["custom_id"] for one in output] == [f"item-{number}" for number in range(items)]
    ledger = {}
    for segment in list_segments(tmp_path / "spool"):
        for record in decode_lines(segment.read_bytes(), 100_000)[0]:
            ledger.setdefault(record.record_id, record)
    by_request = {record.request_id: record for record in ledger.values() if record.tags}
    assert len(by_request) == len(ledger) == items
    for one in output:
        used = one["response"]["body"]["usage"]
        record = by_request[one["response"]["request_id"]]
        assert (used["prompt_tokens"], used["completion_tokens"]) == (record.input_tokens, record.output_tokens)

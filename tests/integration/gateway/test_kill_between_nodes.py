"""The gateway that answers for another node is killed: every answer has one record, whoever of the two wrote it."""

import asyncio
import contextlib
import os
import signal
from collections import defaultdict

import msgspec
import pytest

from tests.support.fake_engines import fake_engine, free_port
from tests.support.gateway_processes import gateway_process, spooled
from tests.support.gateways import authorised, chat_body, snapshot_for
from tests.support.raw_http import call
from workers.contracts.salvage import salvage_all
from workers.contracts.snapshot import GatewayAddress

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
HTTP_OK = 200
ROUNDS = 3
ANSWERS_OF_A_ROUND = 60


def snapshots_of(engine, ports, runs_it):
    """By node. Those of `runs_it` have the engine, and "asked" sends everything there."""
    whole = snapshot_for(("demo-chat", 100, [engine.port]), peer_secret="s")
    versions = [msgspec.structs.replace(version, node_ids=list(runs_it)) for version in whole.versions]
    gateways = [GatewayAddress(node_id=name, url=f"http://127.0.0.1:{port}") for name, port in ports.items()]
    known = msgspec.structs.replace(whole, versions=versions, gateways=gateways)
    without = msgspec.structs.replace(known, endpoints=[])
    return {name: known if name in runs_it else without for name in ports}


@contextlib.contextmanager
def node(directory, snapshots, ports, name):
    home = directory / name
    home.mkdir(exist_ok=True)
    with gateway_process(home, snapshots[name], ports[name], "--node-id", name) as process:
        yield process


async def ask_again_and_again(port, round_number, number, answers):
    for turn in range(10_000):
        request_id = f"k{round_number}-{number}-{turn}"
        body = chat_body(stream=turn % 2 == 0, max_tokens=4, ignore_eos=True)
        answers[request_id] = await call(port, "POST", CHAT, body, authorised() | {"X-Request-Id": request_id})


async def kill_under_load(process, port, round_number):
    """The answers by request id, also those that came after the kill."""
    answers = {}
    clients = [asyncio.create_task(ask_again_and_again(port, round_number, number, answers)) for number in range(12)]
    while len(answers) < ANSWERS_OF_A_ROUND:  # noqa: ASYNC110 - a dict has no event
        await asyncio.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    at_the_kill = len(answers)
    while len(answers) < at_the_kill + len(clients):  # noqa: ASYNC110 - a dict has no event
        await asyncio.sleep(0.005)
    for client in clients:
        client.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    return answers


def is_whole(answer):
    is_stream = answer.header("content-type").startswith("text/event-stream")
    return answer.status == HTTP_OK and answer.body.endswith(b"data: [DONE]\n\n" if is_stream else b"}")


def records_by_request(directory, names):
    records = defaultdict(list)
    for name in names:
        salvage_all(directory / name / "spool")
        for record in spooled(directory / name):
            records[record.request_id].append(record)
    return records


@pytest.mark.parametrize("runs_it", [("killed",), ("killed", "spare")])
async def test_an_answer_has_a_record_though_the_node_that_was_asked_for_it_was_killed(tmp_path, runs_it):
    ports = {name: free_port() for name in ("asked", *runs_it)}
    answers = {}
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "0.5") as engine:
        snapshots = snapshots_of(engine, ports, runs_it)
        with contextlib.ExitStack() as others:
            for name in set(ports) - {"killed"}:
                others.enter_context(node(tmp_path, snapshots, ports, name))
            for round_number in range(ROUNDS):
                with node(tmp_path, snapshots, ports, "killed") as process:
                    answers |= await kill_under_load(process, ports["asked"], round_number)
    records = records_by_request(tmp_path, ports)
    assert set(answers) <= set(records)
    paid = {name: {one.record_id for one in of if one.usage_source != "none"} for name, of in records.items()}
    assert max(map(len, paid.values())) == 1
    whole = {name for name, answer in answers.items() if is_whole(answer)}
    assert all(any(one.outcome == "completed" for one in records[name]) for name in whole)
    assert {answer.status for answer in answers.values()} <= ({HTTP_OK, 503} if len(runs_it) == 1 else {HTTP_OK})

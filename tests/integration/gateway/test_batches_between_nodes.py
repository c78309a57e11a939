"""A batch whose model runs on another node only: asked for there, kept and billed where the batch is, once."""

import asyncio
import socket
import time
from contextlib import asynccontextmanager

import msgspec
import pytest

from tests.support.batches import chats, create, ended, jsonl, line, lines_of, reached, sdk
from tests.support.fake_engines import fake_engine
from tests.support.gateways import chat_body, running_gateway, snapshot_for
from tests.support.raw_http import call, exchange
from workers.contracts.snapshot import GatewayAddress, Route, RouteTarget
from workers.gateway.batches.peers import ITEMS, WITHDRAWALS
from workers.gateway.front.proofs import prove
from workers.gateway.payload.labels import PROOF

pytestmark = pytest.mark.integration

SECRET = "between gateways"
NODES = ("one", "other")


@asynccontextmanager
async def two_nodes(tmp_path, *fake_options):
    """Node "one" has the engine of the model "near", node "other" that of the model "far"."""
    async with (
        fake_engine("--served-model-name", "first") as first,
        fake_engine("--served-model-name", "second", *fake_options) as second,
    ):
        ports = (first.port, second.port)
        whole = snapshot_for(*zip(("first", "second"), (50, 50), [[port] for port in ports], strict=True))
        snapshots = [of_node(whole, number) for number in range(2)]
        for name in NODES:
            (tmp_path / name).mkdir()
        async with (
            running_gateway(tmp_path / "one", snapshots[0], node_id="one", batches=tmp_path / "b1") as here,
            running_gateway(tmp_path / "other", snapshots[1], node_id="other", batches=tmp_path / "b2") as there,
        ):
            await introduce(here, there, snapshots)
            yield here, there, second


async def introduce(here, there, snapshots, generation=2):
    addresses = [
        GatewayAddress(node_id=name, url=f"http://127.0.0.1:{gateway.port}")
        for name, gateway in zip(NODES, (here, there), strict=True)
    ]
    for gateway, snapshot in zip((here, there), snapshots, strict=True):
        known = msgspec.structs.replace(snapshot, generation=generation, gateways=addresses, peer_secret=SECRET)
        gateway.publish(known)
        await gateway.wait_for_generation(generation)


def of_node(whole, number):
    versions = [
        msgspec.structs.replace(version, node_ids=[name]) for version, name in zip(whole.versions, NODES, strict=True)
    ]
    routes = [
        Route(public_name=name, targets=[RouteTarget(version_id=version.version_id, weight=100)])
        for name, version in zip(("near", "far"), versions, strict=True)
    ]
    own = [one for one in whole.endpoints if one.version_id == versions[number].version_id]
    return msgspec.structs.replace(whole, versions=versions, routes=routes, endpoints=own)


def asking(model, count, **fields):
    return jsonl(
        [line(f"{model}-{number}", chat_body(f"this is {number}", model=model, **fields)) for number in range(count)]
    )


def tokens_of(lines):
    return {one["custom_id"]: one["response"]["body"]["usage"]["completion_tokens"] for one in lines}


def billed(gateway):
    return {record.tags["batch_custom_id"]: record.output_tokens for record in gateway.records()}


async def test_items_are_answered_by_the_other_node_and_billed_once_by_the_one_that_has_the_batch(tmp_path):
    async with two_nodes(tmp_path) as (here, there, _), sdk(here.port) as client:
        batch = await ended(client, await create(client, asking("far", 40)))
        lines = await lines_of(client, batch.output_file_id)
        assert (batch.status, batch.request_counts.completed) == ("completed", 40)
        assert billed(here) == tokens_of(lines)
        assert len(here.records()) == 40
        assert there.records() == []
        assert {record.endpoint_id for record in here.records()} == {there.service._driver.endpoints[0].endpoint_id}


async def test_a_batch_may_name_models_of_both_nodes(tmp_path):
    async with two_nodes(tmp_path) as (here, there, _), sdk(there.port) as client:
        batch = await ended(client, await create(client, asking("far", 20) + asking("near", 20)))
        lines = await lines_of(client, batch.output_file_id)
        assert batch.request_counts.completed == 40
        assert billed(there) == tokens_of(lines)
        assert here.records() == []


async def test_what_only_another_node_runs_does_not_hold_up_what_runs_here(tmp_path):
    async with two_nodes(tmp_path, "--hang") as (here, _, engine), sdk(here.port) as client:
        hung = await create(client, asking("far", 30))
        batch = await ended(client, await create(client, asking("near", 30)))
        assert batch.status == "completed"
        engine.engine.set_faults(msgspec.structs.replace(engine.engine.faults, is_hanging=False))
        assert (await ended(client, hung)).request_counts.completed == 30


async def test_while_the_other_node_is_away_the_batch_waits(tmp_path):
    async with two_nodes(tmp_path) as (here, there, _), sdk(here.port) as client:
        there.stop.set()
        await there.task
        batch_id = await create(client, asking("far", 5))
        await asyncio.sleep(0.5)
        assert (await client.batches.retrieve(batch_id)).request_counts.completed == 0
        snapshot = msgspec.json.decode((there.directory / "snapshot.json").read_bytes(), type=type(snapshot_for()))
        again = tmp_path / "again"
        again.mkdir()
        async with running_gateway(again, snapshot, node_id="other", batches=tmp_path / "b3") as back:
            known = msgspec.json.decode((here.directory / "snapshot.json").read_bytes(), type=type(snapshot))
            await introduce(here, back, [known, snapshot], generation=3)
            batch = await ended(client, batch_id)
            assert batch.request_counts.completed == 5
            assert billed(here) == tokens_of(await lines_of(client, batch.output_file_id))
            assert len(here.records()) == 5
            assert back.records() == []


async def test_a_node_that_is_cut_off_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr("workers.gateway.front.neighbour_watch.LOOK_AFTER_S", 0.1)
    monkeypatch.setattr("workers.gateway.front.neighbour_watch._ANSWER_WITHIN_S", 0.3)
    async with two_nodes(tmp_path) as (here, there, _), sdk(here.port) as client:
        with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes connections and says nothing
            snapshot = msgspec.json.decode((here.directory / "snapshot.json").read_bytes(), type=type(snapshot_for()))
            versions = [
                msgspec.structs.replace(
                    one, node_ids=["cut-off", *one.node_ids] if "other" in one.node_ids else ["one"]
                )
                for one in snapshot.versions
            ]
            cut_off = GatewayAddress(node_id="cut-off", url=f"http://127.0.0.1:{silent.getsockname()[1]}")
            changes = {"generation": 3, "versions": versions, "gateways": [*snapshot.gateways, cut_off]}
            here.publish(msgspec.structs.replace(snapshot, **changes))
            await here.wait_for_generation(3)
            batch = await ended(client, await create(client, asking("far", 20)))
            assert batch.request_counts.completed == 20
            assert billed(here) == tokens_of(await lines_of(client, batch.output_file_id))
            assert len(here.records()) == 20
            assert there.records() == []


async def test_a_cancelled_batch_is_billed_what_the_other_node_had_done_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr("workers.gateway.batches.runner.CLOSING_GRACE_S", 0.0)
    slow = ("--time-scale", "1")
    async with two_nodes(tmp_path, *slow) as (here, there, engine), sdk(here.port) as client:
        batch_id = await create(client, asking("far", 2, max_tokens=4000, ignore_eos=True))
        while not engine.engine.load:  # noqa: ASYNC110 - an engine has no event
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)
        await client.batches.cancel(batch_id)
        batch = await reached(client, batch_id, {"cancelled"})
        assert len(await lines_of(client, batch.error_file_id)) == 2
        assert {record.outcome for record in here.records()} == {"client_left"}
        assert len(here.records()) == 2
        assert there.records() == []
        assert engine.engine.load == 0


async def test_who_cannot_prove_to_be_a_gateway_finds_nothing(tmp_path):
    async with two_nodes(tmp_path) as (_, there, _):
        now = time.time()
        proofs = [
            b"",
            prove("another secret", ITEMS, b"{}", now),
            prove(SECRET, ITEMS, b"[]", now),
            prove(SECRET, WITHDRAWALS, b"{}", now),
            prove(SECRET, ITEMS, b"{}", now - 120),
        ]
        for proof in proofs:
            request = b"POST %b HTTP/1.1\r\nhost: x\r\n%b: %b\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}"
            answer = await exchange(there.port, request % (ITEMS, PROOF, proof))
            assert (answer.status, answer.json()["error"]["code"]) == (404, "unknown_url")
        assert (await call(there.port, "GET", ITEMS.decode())).status == 404
        answer = await exchange(there.port, request % (ITEMS, PROOF, prove(SECRET, ITEMS, b"{}", now)))
        assert answer.status == 400


async def test_a_batch_is_not_sent_on_where_nodes_have_no_secret(tmp_path):
    async with two_nodes(tmp_path) as (here, there, _), sdk(here.port) as client:
        snapshot = msgspec.json.decode((here.directory / "snapshot.json").read_bytes(), type=type(snapshot_for()))
        here.publish(msgspec.structs.replace(snapshot, generation=9, peer_secret=""))
        await here.wait_for_generation(9)
        batch_id = await create(client, chats(1, model="far"))
        await asyncio.sleep(0.4)
        assert (await client.batches.retrieve(batch_id)).request_counts.completed == 0
        assert there.records() == []
        await client.batches.cancel(batch_id)

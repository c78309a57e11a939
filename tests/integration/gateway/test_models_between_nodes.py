"""Two nodes with a model each and a client that asks either: it is answered as by all engines behind one address."""

import asyncio
import json
import socket
import struct
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace

import msgspec
import pytest

from tests.support.batches import sdk
from tests.support.fake_engines import fake_engine
from tests.support.gateways import as_a_gateway, authorised, chat_body, running_gateway, snapshot_for
from tests.support.raw_http import call
from workers.contracts.snapshot import GatewayAddress, Snapshot
from workers.gateway.front import delivery
from workers.gateway.front.proofs import prove
from workers.gateway.http.call import Call
from workers.gateway.http.engine_pool import EnginePool
from workers.gateway.http.turns import Turn
from workers.gateway.payload.labels import CHOSEN_VERSION, FORWARDED, PROOF

pytestmark = pytest.mark.integration

NODES = ("one", "other")
CHAT = "/v1/chat/completions"


@asynccontextmanager
async def two_nodes(tmp_path, weights=(50, 50), *fake_options):
    """Node "one" has an engine of v1, node "other" one of v2; the route "demo-chat" leads to both."""
    async with (
        fake_engine("--served-model-name", "first", *fake_options) as first,
        fake_engine("--served-model-name", "second", *fake_options) as second,
    ):
        ports = (first.port, second.port)
        whole = snapshot_for(*zip(("first", "second"), weights, [[port] for port in ports], strict=True))
        snapshots = [of_node(whole, number) for number in range(2)]
        for name in NODES:
            (tmp_path / name).mkdir()
        async with (
            running_gateway(tmp_path / "one", snapshots[0], node_id="one") as here,
            running_gateway(tmp_path / "other", snapshots[1], node_id="other") as there,
        ):
            addresses = [
                GatewayAddress(node_id=gateway.directory.name, url=f"http://127.0.0.1:{gateway.port}")
                for gateway in (here, there)
            ]
            for gateway, snapshot in zip((here, there), snapshots, strict=True):
                known = msgspec.structs.replace(snapshot, generation=2, gateways=addresses, peer_secret="s")
                gateway.publish(known)
                await gateway.wait_for_generation(2)
            yield here, there


def of_node(whole, number):
    versions = [
        msgspec.structs.replace(version, node_ids=[name]) for version, name in zip(whole.versions, NODES, strict=True)
    ]
    own = [one for one in whole.endpoints if one.version_id == versions[number].version_id]
    return msgspec.structs.replace(whole, versions=versions, endpoints=own)


async def test_a_model_that_runs_on_another_node_is_answered_from_there_and_recorded_there_once(tmp_path):
    async with two_nodes(tmp_path, (0, 100)) as (here, there):
        whole = await here.chat(max_tokens=7)
        stream = await here.chat(max_tokens=7, stream=True)
        alone = await there.chat(max_tokens=7)
        records = await there.wait_for_records(3)
        assert here.records() == []
    assert (whole.status, stream.status) == (200, 200)
    assert whole.json()["choices"] == alone.json()["choices"]
    assert stream.body.endswith(b"data: [DONE]\n\n")
    assert [record.output_tokens for record in records] == [7, 7, 7]
    assert {record.node_id for record in records} == {"other"}
    assert whole.header("x-request-id") in {record.request_id for record in records}


async def test_a_split_is_exact_at_either_node(tmp_path):
    async with two_nodes(tmp_path, (30, 70)) as (here, there):
        answers = [await here.chat(max_tokens=1) for _ in range(100)]
        own, others = here.records(), await there.wait_for_records(70)
    assert {answer.status for answer in answers} == {200}
    assert (len(own), len(others)) == (30, 70)


async def test_headers_reach_the_node_that_answers(tmp_path):
    headers = authorised() | {"x-workflow-id": "w-1", "x-request-id": "mine-1"}
    async with two_nodes(tmp_path, (0, 100)) as (here, there):
        answer = await call(here.port, "POST", CHAT, chat_body("hi", max_tokens=1), headers)
        [record] = await there.wait_for_records(1)
    assert answer.header("x-request-id") == record.request_id == "mine-1"
    assert record.workflow_id == "w-1"


async def test_the_other_nodes_words_and_limits_reach_the_client(tmp_path):
    async with two_nodes(tmp_path, (0, 100)) as (here, there):
        wrong = await here.chat(max_tokens=-1)
        alone = await there.chat(max_tokens=-1)
        stranger = await call(here.port, "POST", CHAT, chat_body("hi"), {"authorization": "Bearer ty-nobody"})
    assert (wrong.status, wrong.json()["error"]["code"]) == (alone.status, alone.json()["error"]["code"])
    assert stranger.status == 401


async def test_a_client_that_leaves_is_noticed_at_the_node_that_answers(tmp_path):
    async with two_nodes(tmp_path, (0, 100), "--time-scale", "1") as (here, there):
        async with sdk(here.port) as client:
            stream = await client.chat.completions.create(
                model="demo-chat", messages=[{"role": "user", "content": "hi"}], max_tokens=4000, stream=True
            )
            async for _ in stream:
                break
            await stream.close()
        [record] = await there.wait_for_records(1)
    assert record.outcome == "client_left"
    assert 0 < record.output_tokens < 4000


async def answer_once(reader, writer):
    """A neighbour that closes a kept connection just when the next request comes."""
    for answer in (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}", b""):
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
        writer.write(answer)
    writer.close()


async def test_a_kept_connection_that_the_other_node_has_closed_is_not_the_end_of_a_request(tmp_path):
    neighbour = await asyncio.start_server(answer_once, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{neighbour.sockets[0].getsockname()[1]}"
    whole = snapshot_for(("first", 0, [1]), ("second", 100, [2]))
    known = [GatewayAddress(node_id="one", url="http://127.0.0.1:1"), GatewayAddress(node_id="other", url=url)]
    snapshot = msgspec.structs.replace(of_node(whole, 0), gateways=known)
    async with neighbour, running_gateway(tmp_path, snapshot, node_id="one") as here:
        answers = [await here.chat() for _ in range(4)]
    assert [(answer.status, answer.body) for answer in answers] == [(200, b"{}")] * 4


async def test_a_request_is_forwarded_once_and_never_back(tmp_path):
    async with two_nodes(tmp_path, (0, 100)) as (here, _):
        headers = authorised() | {FORWARDED.decode(): "1", "x-request-deadline-ms": "300"}
        began = time.monotonic()
        answer = await call(here.port, "POST", CHAT, chat_body("hi"), headers)
    assert answer.status in (429, 503, 504)
    assert time.monotonic() - began < 30


async def test_only_a_version_of_the_route_can_be_asked_for(tmp_path):
    async with two_nodes(tmp_path, (100, 0)) as (here, _):
        headers = as_a_gateway("s", b"1") | {CHOSEN_VERSION.decode(): "no-such-version"}
        answer = await call(here.port, "POST", CHAT, chat_body("hi", max_tokens=1), headers)
    assert answer.status == 200


async def test_while_the_node_that_runs_it_is_away_the_answer_says_so_and_leaves_a_record(tmp_path):
    async with two_nodes(tmp_path, (0, 100)) as (here, there):
        there.stop.set()
        await asyncio.wait_for(asyncio.shield(there.task), 10)
        answer = await here.chat()
        [record] = await here.wait_for_records(1)
    assert (answer.status, answer.json()["error"]["code"]) == (503, "node_unreachable")
    assert (record.outcome, record.status) == ("refused", 503)


@asynccontextmanager
async def black_hole():
    """Takes connections and everything that comes by them, and says nothing: a node behind a cut line."""
    held = []

    async def hold(reader, writer):
        held.append(writer)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in held:
            writer.close()


async def test_a_node_that_falls_silent_makes_way_for_the_next_and_is_asked_last_for_a_while(tmp_path):
    async with two_nodes(tmp_path, (0, 100)) as (here, there), black_hole() as port:
        snapshot = msgspec.json.decode((here.directory / "snapshot.json").read_bytes(), type=Snapshot)
        versions = [msgspec.structs.replace(each, node_ids=["hole", "other"]) for each in snapshot.versions]
        gateways = [*snapshot.gateways, GatewayAddress(node_id="hole", url=f"http://127.0.0.1:{port}")]
        here.publish(msgspec.structs.replace(snapshot, generation=3, versions=versions, gateways=gateways))
        await here.wait_for_generation(3)
        first = await asyncio.gather(*(here.chat(max_tokens=1) for _ in range(2)))
        began_at = time.monotonic()
        later = [await here.chat(max_tokens=1) for _ in range(4)]
        took_s = time.monotonic() - began_at
        records = await there.wait_for_records(6)
    assert {answer.status for answer in (*first, *later)} == {200}
    assert len(records) == 6
    assert took_s < 4  # one look at a silent node takes as long


@asynccontextmanager
async def deaf_client(port, request):
    """Asks, and from then on its machine acknowledges nothing: a socket whose line was cut behind it."""
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, request)
        yield client


def forwarded(secret, now, request_id="asked-twice", **fields):
    body = json.dumps(chat_body(**fields)).encode()
    proof = prove(secret, FORWARDED, request_id.encode(), now).decode()
    headers = as_a_gateway(secret, b"1", request_id) | {PROOF.decode(): proof, "content-type": "application/json"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\n{lines}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("is_heard", [True, False])
async def test_what_another_gateway_asked_for_is_billed_if_it_heard_of_the_answer(
    tmp_path, monkeypatch, stream, is_heard
):
    monkeypatch.setattr(delivery, "GIVE_UP_AFTER_S", 0.2)
    if not is_heard:
        monkeypatch.setattr(delivery, "_bytes_heard", lambda client: 0)  # no line can be cut inside one machine
    async with fake_engine("--served-model-name", "demo-chat") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]), peer_secret="s")
        request = forwarded("s", time.time(), max_tokens=7, stream=stream)
        async with running_gateway(tmp_path, snapshot) as gateway, deaf_client(gateway.port, request):
            [record] = await gateway.wait_for_records(1)
    used = (record.input_tokens > 0, record.output_tokens, record.wasted_tokens, record.cost_pico_usd > 0)
    assert used == ((True, 7, 0, True) if is_heard else (False, 0, 7, False))
    assert record.error_code == ("" if is_heard else "not_delivered")


@pytest.mark.parametrize("turned_elsewhere", [False, True])
async def test_a_whole_answer_is_billed_up_to_where_the_client_left_unless_another_node_was_asked(
    tmp_path, turned_elsewhere
):
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "1") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]), peer_secret="s")
        request = forwarded("s", time.time(), max_tokens=500)
        async with running_gateway(tmp_path, snapshot) as gateway:
            async with deaf_client(gateway.port, request) as client:
                await asyncio.sleep(0.3)
                if turned_elsewhere:  # which is done by a reset
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            [record] = await gateway.wait_for_records(1)
    is_billed = record.input_tokens > 0
    assert (record.outcome, record.error_code) == ("client_left", "not_delivered" if turned_elsewhere else "")
    assert is_billed != turned_elsewhere


async def test_a_client_that_left_is_billed_though_its_kernel_reset_what_was_written_before_that_was_seen(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(delivery, "_bytes_heard", lambda client: 0)
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "1") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]), peer_secret="s")
        request = forwarded("s", time.time(), max_tokens=500)
        async with running_gateway(tmp_path, snapshot) as gateway:
            async with deaf_client(gateway.port, request):
                await asyncio.sleep(0.3)
            [connection] = gateway.service._connections
            connection.transport.write(b"what is written")
            connection.transport.write(b" before the gateway looks")
            [record] = await gateway.wait_for_records(1)
    assert (record.outcome, record.error_code) == ("client_left", "")
    assert record.input_tokens > 0


@asynccontextmanager
async def dying_neighbour(*, has_read):
    """Is killed after it has read what it was asked, or before: a kernel closes its connections in either case."""

    async def serve(reader, writer):
        if has_read:
            await reader.read(65536)
        else:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("has_read", [True, False])
async def test_a_request_that_a_dying_node_has_not_answered_leaves_its_record_here(tmp_path, has_read):
    async with dying_neighbour(has_read=has_read) as port:
        whole = snapshot_for(("first", 0, [1]), ("second", 100, [2]))
        known = [
            GatewayAddress(node_id="one", url="http://127.0.0.1:1"),
            GatewayAddress(node_id="other", url=f"http://127.0.0.1:{port}"),
        ]
        snapshot = msgspec.structs.replace(of_node(whole, 0), gateways=known)
        async with running_gateway(tmp_path, snapshot, node_id="one") as here:
            answer = await here.chat()
        records = here.records()
    assert (answer.status, answer.json()["error"]["code"]) == (503, "node_unreachable")
    assert [(record.outcome, record.status) for record in records] == [("refused", 503)]


@pytest.mark.parametrize("has_read", [True, False])
async def test_a_request_that_a_dying_node_has_not_answered_is_answered_by_the_next(tmp_path, has_read):
    async with two_nodes(tmp_path, (0, 100)) as (here, there), dying_neighbour(has_read=has_read) as port:
        snapshot = msgspec.json.decode((here.directory / "snapshot.json").read_bytes(), type=Snapshot)
        versions = [msgspec.structs.replace(each, node_ids=["dying", "other"]) for each in snapshot.versions]
        gateways = [*snapshot.gateways, GatewayAddress(node_id="dying", url=f"http://127.0.0.1:{port}")]
        here.publish(msgspec.structs.replace(snapshot, generation=3, versions=versions, gateways=gateways))
        await here.wait_for_generation(3)
        answers = [await here.chat(max_tokens=1) for _ in range(4)]
        records = await there.wait_for_records(4)
    assert {answer.status for answer in answers} == {200}
    assert len(records) == 4


async def test_who_is_given_up_sees_a_reset_and_not_that_the_client_has_left():
    ended = asyncio.get_running_loop().create_future()

    class Neighbour(asyncio.Protocol):
        def data_received(self, data):
            call.give_up()

        def connection_lost(self, exc):
            ended.set_result(exc)

    server = await asyncio.get_running_loop().create_server(Neighbour, "127.0.0.1", 0)
    async with server:
        turn = Turn(None, asyncio.get_running_loop().call_soon, time.monotonic)
        pool = EnginePool(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", turn)
        call = Call(pool, b"GET / HTTP/1.1\r\n\r\n", SimpleNamespace(is_client_stalled=False))
        call.begin()
        assert isinstance(await ended, ConnectionResetError)


async def test_an_answer_that_is_heard_while_its_gateway_leaves_is_billed(tmp_path):
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "1") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]), peer_secret="s")
        request = forwarded("s", time.time(), max_tokens=30)
        async with running_gateway(tmp_path, snapshot) as gateway, deaf_client(gateway.port, request) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)  # as over a line, it acknowledges later
            await asyncio.sleep(0.1)
            gateway.stop.set()
            answer = await until_closed(client)
            client.close()
            await gateway.task
        [record] = gateway.records()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert (record.output_tokens, record.outcome) == (30, "completed")


async def until_closed(client):
    received = b""
    while piece := await asyncio.get_running_loop().sock_recv(client, 65536):
        received += piece
    return received


async def test_whoever_cannot_prove_to_be_a_gateway_pays_for_what_was_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(delivery, "_bytes_heard", lambda client: 0)
    async with fake_engine("--served-model-name", "demo-chat") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]), peer_secret="s")
        request = forwarded("another", time.time(), max_tokens=7)
        async with running_gateway(tmp_path, snapshot) as gateway, deaf_client(gateway.port, request):
            [record] = await gateway.wait_for_records(1)
    assert (record.output_tokens, record.outcome) == (7, "completed")


async def test_one_that_takes_its_time_and_answers_otherwise_is_waited_for(tmp_path):
    async with two_nodes(tmp_path, (0, 100), "--time-scale", "60") as (here, _):
        began_at = time.monotonic()
        answer = await here.chat(max_tokens=20)
        took_s = time.monotonic() - began_at
    assert answer.status == 200
    assert took_s > 5  # else it has shown nothing

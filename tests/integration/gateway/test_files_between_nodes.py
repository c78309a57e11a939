"""Two nodes and a client that asks either: files and batches are found where they are, and nobody else's anywhere."""

import asyncio
import time
from contextlib import asynccontextmanager

import msgspec
import openai
import pytest

from tests.support.batches import chats, create, ended, lines_of, sdk, upload
from tests.support.fake_engines import fake_engine
from tests.support.gateways import authorised, running_gateway, snapshot_for
from tests.support.raw_http import call, exchange, request_bytes
from workers.contracts.snapshot import GatewayAddress
from workers.gateway.batches.lists import AFTER, MISSING_NODES
from workers.gateway.front.proofs import prove
from workers.gateway.payload.labels import FORWARDED, PROOF

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
FLEET = "of the fleet"


@asynccontextmanager
async def two_nodes(tmp_path, *secrets):
    secrets = secrets or (FLEET,)
    one, other = tmp_path / "one", tmp_path / "other"
    for directory in (one, other):
        directory.mkdir()
    async with fake_engine("--served-model-name", "demo-chat") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        async with (
            running_gateway(one, snapshot, batches=one / "batches", node_id="one") as here,
            running_gateway(other, snapshot, batches=other / "batches", node_id="other") as there,
        ):
            await introduce(snapshot, here, there, *secrets)
            yield here, there


async def introduce(snapshot, here, there, *secrets):
    addresses = [
        GatewayAddress(node_id=gateway.directory.name, url=f"http://127.0.0.1:{gateway.port}")
        for gateway in (here, there)
    ]
    changes = {"generation": snapshot.generation + 1, "gateways": addresses}
    for gateway, secret in ((here, secrets[0]), (there, secrets[-1])):
        known = msgspec.structs.replace(snapshot, **changes, peer_secret=secret)
        gateway.publish(known)
        await gateway.wait_for_generation(known.generation)


async def test_a_batch_is_made_followed_and_fetched_at_any_node(tmp_path):
    async with two_nodes(tmp_path) as (here, there), sdk(here.port) as client, sdk(there.port) as other:
        file_id = await upload(client, chats(5))
        assert (await other.files.retrieve(file_id)).id == file_id
        batch = await other.batches.create(
            input_file_id=file_id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        batch = await ended(other, batch.id)
        assert (batch.status, batch.request_counts.completed) == ("completed", 5)
        assert await lines_of(other, batch.output_file_id) == await lines_of(client, batch.output_file_id)
        assert len(await lines_of(other, batch.output_file_id)) == 5
        with pytest.raises(openai.ConflictError):
            await other.batches.cancel(batch.id)
        await other.files.delete(file_id)
        with pytest.raises(openai.NotFoundError):
            await client.files.retrieve(file_id)


async def test_a_large_file_passes_whole(tmp_path):
    content = b"".join(b"%08d" % number for number in range(1_000_000))
    async with two_nodes(tmp_path) as (here, there), sdk(here.port) as client, sdk(there.port) as other:
        file_id = await upload(client, content)
        assert (await other.files.content(file_id)).content == content
        answer = await exchange(there.port, request_bytes("HEAD", f"/v1/files/{file_id}/content", None, authorised()))
        assert (answer.status, answer.body) == (200, b"")


async def test_another_tenant_finds_nothing_at_either(tmp_path):
    async with two_nodes(tmp_path) as (here, there), sdk(here.port) as client:
        file_id = await upload(client, chats(1))
        batch_id = await create(client, chats(1))
        for gateway in (here, there):
            async with sdk(gateway.port, "standard") as stranger:
                for asking in (stranger.files.retrieve(file_id), stranger.batches.retrieve(batch_id)):
                    with pytest.raises(openai.NotFoundError):
                        await asking


def as_forwarded(target, known_by=FLEET):
    proof = prove(known_by, target.encode(), b"", time.time()).decode()
    return authorised() | {FORWARDED.decode(): "1", PROOF.decode(): proof, AFTER.decode(): "1"}


async def test_a_request_is_forwarded_once_and_what_nobody_keeps_is_not_found(tmp_path):
    async with two_nodes(tmp_path) as (here, there), sdk(here.port) as client:
        file_id = await upload(client, chats(1))
        path, listed = f"/v1/files/{file_id}", "/v1/files?limit=5"
        assert (await call(there.port, "GET", path, None, as_forwarded(path))).status == 404
        assert (await call(there.port, "GET", listed, None, as_forwarded(listed))).json()["data"] == []
        for name in ("file-0123456789abcdef", "file-", "x"):
            assert (await call(there.port, "GET", f"/v1/files/{name}", None, authorised())).status == 404


async def test_who_only_says_that_a_gateway_asks_is_a_client_like_any_other(tmp_path):
    async with two_nodes(tmp_path) as (here, there), sdk(here.port) as client:
        first, second = [await upload(client, chats(1)) for _ in range(2)]
        said = authorised() | {FORWARDED.decode(): "1", AFTER.decode(): "1"}
        assert (await call(there.port, "GET", f"/v1/files/{first}", None, said)).json()["id"] == first
        listed = (await call(there.port, "GET", f"/v1/files?after={second}", None, said)).json()["data"]
        assert [one["id"] for one in listed] == [first]
        path = f"/v1/files/{first}"
        for forged in (as_forwarded("/v1/files"), as_forwarded(path, "another"), said | {PROOF.decode(): "1 x"}):
            answer = await call(there.port, "GET", path, None, forged)
            assert (answer.status, answer.json()["error"]["code"]) == (421, "misdirected")


async def test_gateways_that_do_not_know_each_other_ask_each_other_once(tmp_path):
    async with two_nodes(tmp_path, "of one", "of another") as (here, there), sdk(here.port) as client:
        file_id = await upload(client, chats(1))
        answer = await call(there.port, "GET", f"/v1/files/{file_id}", None, authorised())
        listing = await call(there.port, "GET", "/v1/files", None, authorised())
    assert (answer.status, answer.json()["error"]["code"]) == (503, "node_unreachable")
    assert (listing.json()["data"], listing.header(MISSING_NODES.decode())) == ([], "1")


async def test_while_the_node_that_keeps_it_is_away_the_answer_says_so(tmp_path):
    async with two_nodes(tmp_path) as (here, there), sdk(here.port) as client:
        file_id = await upload(client, chats(1))
        here.stop.set()
        await asyncio.wait_for(asyncio.shield(here.task), 10)
        answer = await call(there.port, "GET", f"/v1/files/{file_id}", None, authorised())
    assert (answer.status, answer.json()["error"]["code"]) == (503, "node_unreachable")
    assert answer.header("retry-after") is not None


async def all_ids(listing):
    return [one.id async for one in listing]


async def test_a_list_is_of_all_nodes_in_one_order_at_any_of_them_and_page_by_page(tmp_path):
    async with two_nodes(tmp_path) as (here, there), sdk(here.port) as client, sdk(there.port) as other:
        files = [await upload(one, chats(1)) for one in (client, other, other, client, other, client)]
        batches = [
            (await client.batches.create(input_file_id=name, endpoint=CHAT, completion_window="24h")).id
            for name in files
        ]
        for one in (client, other):
            in_one_page = await all_ids(one.files.list(purpose="batch"))
            assert set(files) <= set(in_one_page)
            for limit in (1, 2, 3, 5):
                assert [name for name in await all_ids(one.files.list(limit=limit)) if name in files] == [
                    name for name in in_one_page if name in files
                ]
            oldest_first = await all_ids(one.files.list(order="asc", limit=2))
            assert [name for name in reversed(oldest_first) if name in files] == [
                name for name in in_one_page if name in files
            ]
            assert sorted(await all_ids(one.batches.list(limit=2))) == sorted(batches)
        assert await all_ids(client.batches.list()) == await all_ids(other.batches.list())


async def test_a_list_without_a_node_that_is_away_says_so_and_a_stranger_finds_an_empty_one(tmp_path):
    async with two_nodes(tmp_path) as (here, there), sdk(here.port) as client, sdk(there.port) as other:
        theirs, ours = await upload(client, chats(1)), await upload(other, chats(1))
        async with sdk(there.port, "standard") as stranger:
            assert await all_ids(stranger.files.list()) == []
            with pytest.raises(openai.NotFoundError):
                await stranger.files.list(after=theirs)
        for smuggled in ("%20HTTP/1.1%0d%0ax:%20y%0d%0a%0d%0a", "/content", "?x=y", "%00"):
            answer = await call(there.port, "GET", f"/v1/files?after={theirs}{smuggled}", None, authorised())
            assert answer.status == 404
        here.stop.set()
        await asyncio.wait_for(asyncio.shield(here.task), 10)
        answer = await call(there.port, "GET", "/v1/files", None, authorised())
        behind = await call(there.port, "GET", f"/v1/files?after={theirs}", None, authorised())
    assert ([one["id"] for one in answer.json()["data"]], answer.header(MISSING_NODES.decode())) == ([ours], "1")
    assert (behind.status, behind.json()["error"]["code"]) == (503, "node_unreachable")

"""Requests that wait for, or were sent to, an engine that has gone meanwhile: as in each rollout and each drain."""

import asyncio
from contextlib import asynccontextmanager
from uuid import uuid4

import msgspec
import pytest

from tests.integration.gateway.test_models_between_nodes import CHAT, two_nodes
from tests.support.fake_engines import fake_engine
from tests.support.gateways import as_a_gateway, authorised, chat_body, running_gateway, snapshot_for
from tests.support.raw_http import call
from tests.support.scripted_engine import scripted_engine, whole
from workers.contracts.limits import LimitRule, TenantLimits
from workers.contracts.snapshot import GatewayAddress, Snapshot
from workers.gateway import errors
from workers.gateway.payload.labels import CHOSEN_VERSION, COUNTED, FORWARDED, HAS_OTHERS, STAYS

pytestmark = pytest.mark.integration

SLOW = ("--time-scale", "1")
ELSEWHERE = [GatewayAddress(node_id=f"n{number}", url=f"http://127.0.0.1:{number}") for number in (1, 2)]


def requests_per_minute(tenant_id, amount):
    rule = LimitRule(limit_id=str(uuid4()), scope="tenant", kind="requests_per_minute", amount=amount)
    return TenantLimits(tenant_id=tenant_id, rules=[rule])


def counted_at(gateway):
    return sum(account.spent for account in gateway.service._limits.ledger.accounts.values())


def held_by(gateway):
    return msgspec.json.decode((gateway.directory / "snapshot.json").read_bytes(), type=Snapshot)


async def publish(gateway, **changes):
    snapshot = held_by(gateway)
    generation = snapshot.generation + 1
    gateway.publish(msgspec.structs.replace(snapshot, generation=generation, **changes))
    await gateway.wait_for_generation(generation)


async def until_queued(gateway, count):
    for _ in range(1000):
        if gateway.service._driver.scheduler.queued_total() >= count:
            return
        await asyncio.sleep(0.01)
    raise TimeoutError(f"{count} do not wait")


def narrow(snapshot, number=0):
    """One request at a time at that engine, so that the next ones wait."""
    engines = list(snapshot.endpoints)
    engines[number] = msgspec.structs.replace(engines[number], max_running_requests=1)
    return msgspec.structs.replace(snapshot, endpoints=engines)


@asynccontextmanager
async def two_versions(tmp_path, weights):
    async with (
        fake_engine("--served-model-name", "first", *SLOW) as first,
        fake_engine("--served-model-name", "second", *SLOW) as second,
    ):
        ports = ([first.port], [second.port])
        snapshot = narrow(snapshot_for(*zip(("first", "second"), weights, ports, strict=True)))
        async with running_gateway(tmp_path, snapshot) as gateway:
            yield gateway


async def test_what_waits_for_a_version_whose_last_engine_goes_is_answered_by_another_of_the_route(tmp_path):
    async with two_versions(tmp_path, (100, 0)) as gateway:
        asked = [asyncio.create_task(gateway.chat(max_tokens=60)) for _ in range(6)]
        await until_queued(gateway, 5)
        snapshot = held_by(gateway)
        shares = zip(snapshot.routes[0].targets, (1, 99), strict=True)
        targets = [msgspec.structs.replace(target, weight=weight) for target, weight in shares]
        routes = [msgspec.structs.replace(snapshot.routes[0], targets=targets)]
        await publish(gateway, routes=routes, endpoints=snapshot.endpoints[1:])
        answers = [await each for each in asked]
        records = await gateway.wait_for_records(6)
    assert {answer.status for answer in answers} == {200}
    assert {answer.json()["model"] for answer in answers} == {"demo-chat"}
    first, second = (version.version_id for version in snapshot.versions)
    assert sorted(record.version_id for record in records) == sorted([first, *[second] * 5])
    assert [record.attempts for record in records] == [1] * 6
    assert {record.output_tokens for record in records} == {60}


async def test_what_waits_where_the_last_engine_goes_is_answered_by_another_node_and_recorded_there_once(tmp_path):
    async with two_nodes(tmp_path, (100, 0), *SLOW) as (here, there):
        for gateway, held in ((here, narrow(held_by(here))), (there, held_by(there))):
            await publish(gateway, endpoints=held.endpoints, limits=[requests_per_minute("gold", 100)])
        asked = [asyncio.create_task(here.chat(max_tokens=60)) for _ in range(4)]
        await until_queued(here, 3)
        for gateway in (here, there):
            snapshot = held_by(gateway)
            targets = [msgspec.structs.replace(target, weight=1) for target in snapshot.routes[0].targets]
            routes = [msgspec.structs.replace(snapshot.routes[0], targets=targets)]
            versions = [msgspec.structs.replace(version, node_ids=["other"]) for version in snapshot.versions]
            kept = [] if gateway is here else snapshot.endpoints
            await publish(gateway, routes=routes, versions=versions, endpoints=kept)
        answers = [await each for each in asked]
        own, others = await here.wait_for_records(1), await there.wait_for_records(3)
    assert {answer.status for answer in answers} == {200}
    assert (len(own), len(others)) == (1, 3)
    assert (counted_at(here), counted_at(there)) == (4, 0)  # as many requests as there were
    assert len({record.request_id for record in [*own, *others]}) == 4


async def test_a_forwarded_request_gets_another_version_where_the_chosen_one_has_just_left(tmp_path):
    async with two_nodes(tmp_path, (50, 50)) as (_, there):
        first = held_by(there).versions[0].version_id
        headers = as_a_gateway("s", STAYS) | {CHOSEN_VERSION.decode(): first}
        answer = await asyncio.wait_for(call(there.port, "POST", CHAT, chat_body("hi", max_tokens=3), headers), 10)
    assert answer.status == 200


async def test_a_node_whose_engine_has_gone_sends_a_request_back_and_the_next_is_asked(tmp_path):
    async with two_nodes(tmp_path, (0, 100)) as (here, there):
        (tmp_path / "empty").mkdir()
        async with running_gateway(tmp_path / "empty", held_by(there), node_id="empty") as empty:
            await publish(empty, endpoints=[])
            snapshot = held_by(here)
            versions = [msgspec.structs.replace(each, node_ids=["empty", "other"]) for each in snapshot.versions]
            address = GatewayAddress(node_id="empty", url=f"http://127.0.0.1:{empty.port}")
            await publish(here, versions=versions, gateways=[*snapshot.gateways, address])
            answers = [await asyncio.wait_for(here.chat(max_tokens=3), 10) for _ in range(4)]
            records = await there.wait_for_records(4)
            assert empty.records() == here.records() == []
    assert {answer.status for answer in answers} == {200}
    assert {record.output_tokens for record in records} == {3}


async def test_who_could_ask_nobody_else_is_not_sent_back_and_neither_is_who_only_says_that_it_is_a_gateway(tmp_path):
    async with fake_engine("--served-model-name", "demo-chat", *SLOW) as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]), peer_secret="s")
        empty = msgspec.structs.replace(snapshot, endpoints=[], gateways=ELSEWHERE)
        async with running_gateway(tmp_path, empty) as gateway:
            kept = [as_a_gateway("s", STAYS), *[as_a_gateway(secret, HAS_OTHERS) for secret in ("", "guessed")]]
            answers = [
                await call(gateway.port, "POST", CHAT, chat_body("hi"), headers | {"x-request-deadline-ms": "300"})
                for headers in (*kept, authorised() | {FORWARDED.decode(): HAS_OTHERS.decode()})
            ]
            others = as_a_gateway("s", HAS_OTHERS)
            sent_back = await call(gateway.port, "POST", CHAT, chat_body("hi"), others)
            records = await gateway.wait_for_records(4)
    assert {answer.status for answer in answers} <= {429, 503, 504}
    assert (sent_back.status, sent_back.json()["error"]["code"]) == (421, "misdirected")
    assert [record.status for record in records] == [answer.status for answer in answers]


async def test_what_a_client_says_in_a_gateways_words_chooses_no_version_and_is_counted(tmp_path):
    """Nor does an engine hear of it."""
    async with scripted_engine(whole(b'{"usage":{"prompt_tokens":1,"completion_tokens":1}}')) as engine:
        snapshot = snapshot_for(("first", 100, [engine.port]), ("second", 0, [engine.port]))
        limits = [requests_per_minute("gold", 3)]
        snapshot = msgspec.structs.replace(snapshot, limits=limits, gateways=ELSEWHERE, peer_secret="s")
        async with running_gateway(tmp_path, snapshot) as gateway:
            said = {FORWARDED.decode(): "1", CHOSEN_VERSION.decode(): "v2", COUNTED.decode(): "1"}
            answers = [await call(gateway.port, "POST", CHAT, chat_body(), authorised() | said) for _ in range(4)]
            proven = as_a_gateway("s", STAYS) | {CHOSEN_VERSION.decode(): "v2", COUNTED.decode(): "1"}
            answers.append(await call(gateway.port, "POST", CHAT, chat_body(), proven))
            records = await gateway.wait_for_records(5)
    assert [answer.status for answer in answers] == [200, 200, 200, 429, 200]
    assert [record.version_id for record in records] == ["v1"] * 4 + ["v2"]
    assert b"x-tokenyard" not in b"".join(engine.seen).lower()


@pytest.mark.parametrize("leaves", [True, False])
async def test_what_another_gateway_has_waiting_where_it_leaves_or_its_last_engine_does_is_sent_back(tmp_path, leaves):
    async with two_nodes(tmp_path, (0, 100), *SLOW) as (here, there):
        (tmp_path / "leaving").mkdir()
        snapshot = narrow(held_by(there))
        async with running_gateway(tmp_path / "leaving", snapshot, node_id="leaving") as leaving:
            address = GatewayAddress(node_id="leaving", url=f"http://127.0.0.1:{leaving.port}")
            versions = [msgspec.structs.replace(each, node_ids=["leaving", "other"]) for each in snapshot.versions]
            gateways = [*snapshot.gateways, address]
            limits = [requests_per_minute("gold", 100)]
            for gateway in (leaving, here, there):
                await publish(gateway, versions=versions, gateways=gateways, limits=limits)
            asked = [asyncio.create_task(here.chat(max_tokens=80)) for _ in range(8)]
            await until_queued(leaving, 3)
            if leaves:
                leaving.stop.set()
            else:
                await publish(leaving, endpoints=[])
            answers = [await asyncio.wait_for(each, 30) for each in asked]
            own, others = await leaving.wait_for_records(1), await there.wait_for_records(7)
    assert {answer.status for answer in answers} == {200}
    assert (len(own), len(others)) == (1, 7)
    assert sum(map(counted_at, (here, there, leaving))) == 8
    assert len({record.request_id for record in [*own, *others]}) == 8


async def test_who_asked_answers_itself_where_the_only_other_node_has_lost_its_engine(tmp_path):
    async with two_nodes(tmp_path, (50, 50)) as (here, there):
        await publish(there, endpoints=[])
        answers = [await asyncio.wait_for(here.chat(max_tokens=3), 10) for _ in range(6)]
        records = await here.wait_for_records(6)
        assert there.records() == []
    assert {answer.status for answer in answers} == {200}
    assert len({record.request_id for record in records}) == len({record.record_id for record in records}) == 6


async def test_what_waits_at_the_only_other_node_comes_back_when_the_engine_that_replaces_its_last_is_here(tmp_path):
    async with two_nodes(tmp_path, (0, 100), *SLOW) as (here, there):
        await publish(there, endpoints=narrow(held_by(there)).endpoints)
        asked = [asyncio.create_task(here.chat(max_tokens=200)) for _ in range(5)]
        await until_queued(there, 4)
        for gateway in (here, there):
            snapshot = held_by(gateway)
            targets = [msgspec.structs.replace(target, weight=50) for target in snapshot.routes[0].targets]
            kept = snapshot.endpoints if gateway is here else []
            await publish(
                gateway, routes=[msgspec.structs.replace(snapshot.routes[0], targets=targets)], endpoints=kept
            )
        answers = [await asyncio.wait_for(each, 20) for each in asked]
        own, others = await here.wait_for_records(1), await there.wait_for_records(1)
    assert {answer.status for answer in answers} == {200}
    assert len(own) + len(others) == 5
    assert len({record.request_id for record in [*own, *others]}) == 5


async def test_what_no_node_has_an_engine_of_waits_where_it_was_and_is_refused_once(tmp_path):
    async with two_nodes(tmp_path, (0, 100)) as (here, there):
        await publish(there, endpoints=[])
        body = chat_body("hi", max_tokens=3)
        headers = authorised() | {"x-request-deadline-ms": "400"}
        answer = await asyncio.wait_for(call(here.port, "POST", CHAT, body, headers), 10)
        records = await there.wait_for_records(1)
        assert here.records() == []
    assert answer.status in (429, 503, 504)
    assert [record.status for record in records] == [answer.status]


async def test_what_its_limits_let_in_once_its_engine_has_gone_and_the_queue_refuses_is_answered_and_recorded_once(
    tmp_path, monkeypatch
):
    async with two_versions(tmp_path, (99, 1)) as gateway:
        service, held = gateway.service, held_by(gateway)
        rule = LimitRule(limit_id=str(uuid4()), scope="tenant", kind="concurrent_requests", amount=5)
        tenants = [msgspec.structs.replace(one, max_queued_requests=0) for one in held.tenants]
        await publish(
            gateway, tenants=tenants, limits=[TenantLimits(tenant_id=held.tenants[0].tenant_id, rules=[rule])]
        )
        let_in = service._limits.let_in

        def let_in_late(*arguments):
            service._driver.set_endpoints(held.endpoints[1:])
            let_in(*arguments)

        monkeypatch.setattr(service._limits, "let_in", let_in_late)
        answer = await asyncio.wait_for(gateway.chat(max_tokens=3), 10)
        records = await gateway.wait_for_records(1)
        assert service._limits.ledger._open == 0
    assert (answer.status, answer.json()["error"]["code"]) == (429, "queue_full")
    assert [record.status for record in records] == [429]


async def test_a_gateway_that_takes_nothing_new_sends_back_what_may_be_asked_elsewhere(tmp_path):
    async with two_nodes(tmp_path, (50, 50)) as (here, there):
        there.service._surface.stop_reason = errors.node_removed()
        answers = [await asyncio.wait_for(here.chat(max_tokens=3), 10) for _ in range(6)]
        assert (await there.chat(max_tokens=3)).status == 503
        records = await here.wait_for_records(6)
        assert [record.error_code for record in there.records()] == ["node_removed"]
    assert {answer.status for answer in answers} == {200}
    assert len(records) == 6


async def test_where_the_only_other_node_cannot_be_reached_an_engine_of_the_route_that_is_here_answers(tmp_path):
    async with two_nodes(tmp_path, (50, 50)) as (here, there):
        there.stop.set()
        await asyncio.wait_for(there.task, 10)
        answers = [await asyncio.wait_for(here.chat(max_tokens=3), 10) for _ in range(6)]
        records = await here.wait_for_records(6)
    assert {answer.status for answer in answers} == {200}
    assert [record.attempts for record in records] == [1] * 6


async def test_what_all_have_sent_back_waits_at_the_last_of_them_and_comes_back_when_another_node_has_an_engine(
    tmp_path,
):
    """As in a drain: its engine is offered no more a moment before anybody knows of the one that replaces it."""
    async with two_nodes(tmp_path, (0, 100), *SLOW) as (here, there):
        engines = held_by(there).endpoints
        await publish(there, endpoints=[])
        asked = [asyncio.create_task(here.chat(max_tokens=20)) for _ in range(4)]
        await until_queued(there, 4)
        await publish(here, endpoints=[*held_by(here).endpoints, *engines])
        versions = [msgspec.structs.replace(one, node_ids=["one"]) for one in held_by(there).versions]
        await publish(there, versions=versions)
        answers = [await asyncio.wait_for(each, 10) for each in asked]
        records = await here.wait_for_records(4)
        assert there.records() == []
    assert {answer.status for answer in answers} == {200}
    assert len({record.request_id for record in records}) == 4


async def test_what_comes_back_a_second_time_to_who_knows_nothing_new_waits_there_until_it_does(tmp_path):
    async with two_nodes(tmp_path, (0, 100), *SLOW) as (here, there):
        engines = held_by(there).endpoints
        await publish(there, endpoints=[])
        asked = [asyncio.create_task(here.chat(max_tokens=20)) for _ in range(4)]
        await until_queued(there, 4)
        versions = [msgspec.structs.replace(one, node_ids=["one"]) for one in held_by(there).versions]
        await publish(there, versions=versions)
        await until_queued(here, 4)
        await publish(there, endpoints=engines, versions=held_by(here).versions)
        await publish(here)
        answers = [await asyncio.wait_for(each, 10) for each in asked]
        records = await there.wait_for_records(4)
        assert here.records() == []
    assert {answer.status for answer in answers} == {200}
    assert len(records) == 4

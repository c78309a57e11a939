"""Processes of one gateway die, drain, are succeeded and change places; no stream of another notices."""

import asyncio
import contextlib
import json
import os
import signal
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from tests.support.fake_engines import fake_engine, free_port
from tests.support.gateway_processes import gateway_process, spooled
from tests.support.gateways import authorised, chat_body
from tests.support.raw_http import call, parse_response, request_bytes
from tests.support.sister_processes import MODELS, sister_processes, two_models
from workers.contracts.layout import write_whole
from workers.contracts.limits import LimitRule, TenantLimits
from workers.contracts.salvage import salvage_all
from workers.contracts.snapshot import RouteTarget

pytestmark = pytest.mark.integration

ALONE = ("--valkey-url", "")
CHAT = "/v1/chat/completions"
LONG = {"stream": True, "max_tokens": 1500, "ignore_eos": True}


@asynccontextmanager
async def engines(*options):
    async with (
        fake_engine("--served-model-name", MODELS[0], *options) as first,
        fake_engine("--served-model-name", MODELS[1], *options) as second,
    ):
        yield first, second


def ask(port, model, request_id="", **fields):
    headers = authorised() | ({"X-Request-Id": request_id} if request_id else {})
    return call(port, "POST", CHAT, chat_body(model=model, **fields), headers)


async def owner_of(gateway, directory, model):
    """The number of the process that records what is asked of it."""
    await ask(gateway.port, model, "whose")
    [boot_id] = {record.boot_id for record in spooled(directory) if record.public_model == model}
    return boot_id_number(gateway, boot_id)


def boot_id_number(gateway, boot_id):
    """A process has its own journal in its memory, and nobody else's."""
    maps = {number: Path(f"/proc/{pid}/maps").read_text() for number, pid in gateway.pids().items()}
    return next(number for number, text in maps.items() if boot_id in text)


async def ask_without_end(gateway, number, turns, answered, failed):
    for turn in turns:
        model = MODELS[(number + turn) % 2]
        request_id = f"{number}-{turn}"
        with contextlib.suppress(OSError, IndexError):
            answer = await ask(gateway.port, model, request_id, stream=turn % 2 == 0, max_tokens=8)
            if answer.status != 200:
                failed.append(answer)
            elif answer.body.endswith((b"data: [DONE]\n\n", b"}")):
                answered.add(request_id)


async def test_one_that_is_killed_under_load_is_back_and_its_sisters_streams_go_on(tmp_path):
    async with engines("--time-scale", "0.5") as (first, second):
        with sister_processes(tmp_path, two_models([first.port], [second.port])) as gateway:
            doomed = await owner_of(gateway, tmp_path, MODELS[0])
            pids = gateway.pids()
            stream = asyncio.create_task(ask(gateway.port, MODELS[1], "long", **LONG))
            cut = asyncio.create_task(ask(gateway.port, MODELS[0], "cut", **LONG))
            await asyncio.sleep(0.5)
            answered, failed, is_over = set(), [], asyncio.Event()
            turns = iter(range(10_000))
            clients = [
                asyncio.create_task(ask_without_end(gateway, number, _until(is_over, turns), answered, failed))
                for number in range(6)
            ]
            await asyncio.sleep(0.5)
            gateway.kill(doomed)
            before = len(answered)
            while len(answered) < before + 150 or gateway.pids().keys() != pids.keys():  # noqa: ASYNC110 - a set
                await asyncio.sleep(0.02)
            is_over.set()
            await asyncio.gather(*clients)
            streamed, was_cut = await stream, await cut
            metrics = await gateway.metrics()
            assert gateway.pids()[1 - doomed] == pids[1 - doomed]
            assert gateway.pids()[doomed] != pids[doomed]
    assert failed == []  # what was asked of the dead one's model meanwhile has waited for the next
    assert streamed.body.endswith(b"data: [DONE]\n\n")
    assert b"error" not in streamed.body
    assert not was_cut.body.endswith(b"data: [DONE]\n\n")
    assert metrics[f'tokenyard_gateway_process_restarts_total{{process="{doomed}"}}'] == 1
    salvage_all(tmp_path / "spool")
    records = {record.request_id: record for record in spooled(tmp_path)}
    assert len(records) == len(spooled(tmp_path))
    assert answered <= set(records)
    assert (records["long"].outcome, records["long"].output_tokens) == ("completed", 1500)
    assert (records["cut"].error_code, records["cut"].usage_source) == ("gateway_died", "engine")
    assert records["cut"].output_tokens > 10


async def test_one_that_falls_silent_is_replaced_within_half_a_minute_and_its_sisters_streams_go_on(tmp_path):
    async with engines("--time-scale", "0.5") as (first, second):
        with sister_processes(tmp_path, two_models([first.port], [second.port])) as gateway:
            silent = await owner_of(gateway, tmp_path, MODELS[0])
            pids = gateway.pids()
            cut = asyncio.create_task(ask(gateway.port, MODELS[0], "cut", **LONG))
            await asyncio.sleep(0.5)
            os.kill(pids[silent], signal.SIGSTOP)
            streams = [asyncio.create_task(ask(gateway.port, MODELS[1], f"long-{n}", **LONG)) for n in range(2)]
            async with asyncio.timeout(30):
                while gateway.pids().get(silent) in {None, pids[silent]}:  # noqa: ASYNC110 - another's processes
                    await asyncio.sleep(0.05)
                again = await ask(gateway.port, MODELS[0], "again")
            was_cut = await cut
            streamed = [await stream for stream in streams]
            assert gateway.pids()[1 - silent] == pids[1 - silent]
    assert again.status == 200
    assert not was_cut.body.endswith(b"data: [DONE]\n\n")
    assert all(answer.body.endswith(b"data: [DONE]\n\n") for answer in streamed)
    salvage_all(tmp_path / "spool")
    records = Counter(record.request_id for record in spooled(tmp_path))
    assert {records[name] for name in ("cut", "again", "long-0", "long-1")} == {1}


def _until(is_over, turns):
    while not is_over.is_set():
        yield next(turns)


async def test_no_counter_goes_back_when_a_process_dies(tmp_path):
    name = (
        'tokenyard_gateway_requests_total{model="%s",service_class="gold",path="%s",outcome="completed",status="2xx"}'
    )
    async with engines() as (first, second):
        with sister_processes(tmp_path, two_models([first.port], [second.port])) as gateway:
            number = await owner_of(gateway, tmp_path, MODELS[0])
            for _ in range(5):
                await ask(gateway.port, MODELS[0])
            assert (await gateway.metrics())[name % (MODELS[0], CHAT)] == 6
            await asyncio.sleep(1.2)  # it says once a second what it has counted
            gateway.kill(number)
            ready = await _first_not_ready(gateway)
            assert f"process {number} is starting" in json.loads(ready.body)["reasons"]
            assert (await ask(gateway.port, MODELS[0])).status == 200
            await asyncio.sleep(1.2)
            assert (await gateway.metrics())[name % (MODELS[0], CHAT)] == 7
            report = (await call(gateway.admin_port, "GET", "/report")).json()
            assert report["requests_total"] >= 6
            assert (await call(gateway.admin_port, "GET", "/readyz")).status == 200


async def _first_not_ready(gateway):
    async with asyncio.timeout(10):
        while (ready := await call(gateway.admin_port, "GET", "/readyz")).status == 200:
            pass
    return ready


async def test_sigterm_lets_the_streams_of_all_end_within_the_grace_and_refuses_the_rest(tmp_path):
    async with engines("--time-scale", "0.5") as (first, second):
        snapshot = two_models([first.port], [second.port])
        with sister_processes(tmp_path, snapshot, "--grace-s", "20") as gateway:
            streams = [
                asyncio.create_task(ask(gateway.port, model, stream=True, max_tokens=300, ignore_eos=True))
                for model in MODELS
            ]
            await asyncio.sleep(0.5)
            gateway.parent.send_signal(signal.SIGTERM)
            answers = await asyncio.gather(*streams)
            assert await asyncio.to_thread(gateway.parent.wait, 20) == 0
            with pytest.raises(OSError):  # noqa: PT011 - refused, or reset
                await call(gateway.port, "GET", "/health")
    assert all(answer.body.endswith(b"data: [DONE]\n\n") for answer in answers)
    assert [record.outcome for record in spooled(tmp_path)] == ["completed"] * 2
    assert list((tmp_path / "spool").glob("*.journal")) == []


async def ask_all_the_time(port, number, statuses, is_over):
    """On new connections, and on one that is kept; of either model."""
    connection = None
    turn = number
    while not is_over.is_set():
        turn += 1
        if number % 2:
            statuses.append((await ask(port, MODELS[turn % 2], max_tokens=2)).status)
            continue
        connection = connection or await asyncio.open_connection("127.0.0.1", port)
        reader, writer = connection
        body = chat_body(model=MODELS[turn % 2], max_tokens=2)
        writer.write(request_bytes("POST", CHAT, body, authorised() | {"Connection": "keep-alive"}))
        answer = parse_response(await reader.readuntil(b"\r\n\r\n"))
        await reader.readexactly(int(answer.header("content-length")))
        statuses.append(answer.status)
        if answer.header("connection") == "close":
            writer.close()
            connection = None
    if connection is not None:
        connection[1].close()


@pytest.mark.parametrize(("old_processes", "new_processes"), [(2, 3), (2, 1), (1, 2)])
async def test_a_gateway_of_any_number_of_processes_takes_over_without_a_refusal(
    tmp_path, old_processes, new_processes
):
    port, admin_port = free_port(), free_port()
    async with engines("--time-scale", "0.5") as (first, second):
        snapshot = two_models([first.port], [second.port])
        with started(tmp_path, snapshot, port, admin_port, old_processes) as old:
            statuses, is_over = [], asyncio.Event()
            clients = [asyncio.create_task(ask_all_the_time(port, number, statuses, is_over)) for number in range(6)]
            stream = asyncio.create_task(ask(port, MODELS[1], "long", stream=True, max_tokens=600, ignore_eos=True))
            await asyncio.sleep(0.5)
            with started(tmp_path, snapshot, port, admin_port, new_processes, "--take-over"):
                streamed = await stream
                assert await asyncio.to_thread(old.wait, 30) == 0
                before = len(statuses)
                await asyncio.sleep(0.5)
                is_over.set()
                await asyncio.gather(*clients)
                ready = await call(admin_port, "GET", "/readyz")
    assert set(statuses) == {200}
    assert len(statuses) > before > 20
    assert ready.status == 200
    assert streamed.body.endswith(b"data: [DONE]\n\n")
    records = spooled(tmp_path)
    assert len(records) == len(statuses) + 1
    assert {record.outcome for record in records} == {"completed"}


@contextlib.contextmanager
def started(directory, snapshot, port, admin_port, processes, *options):
    if processes == 1:
        with gateway_process(directory, snapshot, port, *options, admin_port=admin_port) as process:
            yield process
        return
    with sister_processes(
        directory, snapshot, *options, processes=processes, port=port, admin_port=admin_port
    ) as gateway:
        yield gateway.parent


async def test_when_the_parent_is_killed_streams_go_on_and_the_port_is_free_for_the_next(tmp_path):
    async with engines("--time-scale", "0.5") as (first, second):
        snapshot = two_models([first.port], [second.port])
        with sister_processes(tmp_path, snapshot) as gateway:
            streams = [
                asyncio.create_task(ask(gateway.port, model, stream=True, max_tokens=400, ignore_eos=True))
                for model in MODELS
            ]
            await asyncio.sleep(0.5)
            gateway.parent.kill()
            gateway.parent.wait(10)
            await asyncio.sleep(0.3)
            with sister_processes(tmp_path, snapshot, port=gateway.port, admin_port=gateway.admin_port) as other:
                assert (await ask(other.port, MODELS[0])).status == 200
                answers = await asyncio.gather(*streams)
    assert all(answer.body.endswith(b"data: [DONE]\n\n") for answer in answers)


async def test_a_route_that_joins_two_owners_moves_one_model_and_breaks_no_stream_of_it(tmp_path):
    async with engines("--time-scale", "0.5") as (first, second):
        snapshot = two_models([first.port], [second.port])
        with sister_processes(tmp_path, snapshot) as gateway:
            for model in MODELS:
                await ask(gateway.port, model, f"before-{model}")
            streams = [
                asyncio.create_task(ask(gateway.port, model, f"during-{model}", **LONG | {"max_tokens": 500}))
                for model in MODELS
            ]
            await asyncio.sleep(0.5)
            joined = [
                msgspec.structs.replace(
                    route, targets=[RouteTarget(version_id=one.version_id, weight=1) for one in snapshot.versions]
                )
                for route in snapshot.routes[:1]
            ]
            changed = msgspec.structs.replace(snapshot, generation=2, routes=[*joined, *snapshot.routes[1:]])
            write_whole(tmp_path / "snapshot.json", msgspec.json.encode(changed))
            await asyncio.sleep(1.0)
            after = [
                await ask(gateway.port, model, f"after-{number}-{model}") for number in range(4) for model in MODELS
            ]
            answers = await asyncio.gather(*streams)
    assert {answer.status for answer in after} == {200}
    assert all(answer.body.endswith(b"data: [DONE]\n\n") for answer in answers)
    assert not any(b"error" in answer.body for answer in answers)
    records = {record.request_id: record for record in spooled(tmp_path)}
    owners = {name: {r.boot_id for i, r in records.items() if i.startswith(name)} for name in ("before", "after")}
    assert (len(owners["before"]), len(owners["after"])) == (2, 1)


def limited(snapshot, kind, amount):
    rule = LimitRule(limit_id=str(uuid4()), scope="tenant", kind=kind, amount=amount)
    return msgspec.structs.replace(snapshot, limits=[TenantLimits(tenant_id="gold", rules=[rule])])


@pytest.mark.parametrize("has_valkey", [True, False])
async def test_a_limit_of_n_is_n_over_all_processes(tmp_path, request, has_valkey):
    options = ("--valkey-url", request.getfixturevalue("valkey").url if has_valkey else "")
    async with engines() as (first, second):
        snapshot = two_models([first.port], [second.port])
        with sister_processes(tmp_path, limited(snapshot, "requests_per_minute", 20), *options) as gateway:
            await asyncio.sleep(3.5)  # a Valkey that has just started waits for those who may still hold leases
            answers = await asyncio.gather(*(ask(gateway.port, MODELS[n % 2], max_tokens=2) for n in range(60)))
            assert Counter(answer.status for answer in answers) == {200: 20, 429: 40}


async def test_places_and_tokens_are_shared_by_all_processes(tmp_path):
    long = {"max_tokens": 400, "min_tokens": 400, "ignore_eos": True}
    async with engines() as (first, second):
        snapshot = two_models([first.port], [second.port])
        with sister_processes(tmp_path, limited(snapshot, "concurrent_requests", 3), *ALONE) as gateway:
            for _ in range(2):
                answers = await asyncio.gather(*(ask(gateway.port, MODELS[n % 2], **long) for n in range(12)))
                assert Counter(answer.status for answer in answers)[200] == 3
            tokens = msgspec.structs.replace(limited(snapshot, "tokens_per_day", 400), generation=2)
            write_whole(tmp_path / "snapshot.json", msgspec.json.encode(tokens))
            await asyncio.sleep(1.0)
            eight = {"max_tokens": 8, "min_tokens": 8, "ignore_eos": True}
            used = []
            while told := [
                answer.json()["usage"]["total_tokens"]
                for answer in await asyncio.gather(*(ask(gateway.port, MODELS[n % 2], **eight) for n in range(16)))
                if answer.status == 200
            ]:
                used += told
    assert sum(used) <= 400
    assert 400 - sum(used) < 2 * max(used)

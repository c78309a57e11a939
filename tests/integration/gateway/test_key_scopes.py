"""What a key's own scope leaves out is refused by the gateway, and recorded."""

import json

import msgspec
import pytest

from tests.support.fake_engines import fake_engine
from tests.support.gateways import chat_body, running_gateway, snapshot_for

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"


def scoped(snapshot, *, trusted_proxies=(), **scope):
    """The snapshot with this scope on each key."""
    keys = [msgspec.structs.replace(key, **scope) for key in snapshot.keys]
    return msgspec.structs.replace(snapshot, keys=keys, trusted_proxies=list(trusted_proxies))


@pytest.fixture
async def engine():
    async with fake_engine(
        "--served-model-name", "demo-chat", "--max-model-len", "2048", "--time-scale", "1"
    ) as server:
        yield server


async def answer_to(engine, tmp_path, path=CHAT, headers=None, **scope):
    snapshot = scoped(snapshot_for(("demo-chat", 100, [engine.port])), **scope)
    async with running_gateway(tmp_path, snapshot) as gateway:
        method, body = ("GET", None) if path == "/v1/models" else ("POST", chat_body("hello"))
        response = await gateway.call(method, path, body, headers=headers)
        records = await gateway.wait_for_records(1) if path == CHAT else []
    code = json.loads(response.body).get("error", {}).get("code")
    return response.status, code, [record.outcome for record in records]


async def test_a_key_for_other_paths_is_refused_and_leaves_a_record(engine, tmp_path):
    answer = await answer_to(engine, tmp_path, paths=["/v1/embeddings"])
    assert answer == (403, "path_not_allowed", ["rejected"])


async def test_a_key_for_other_paths_is_refused_however_the_path_is_written(engine, tmp_path):
    written = "/v1/%63hat%2Fcompletions"
    assert (await answer_to(engine, tmp_path, path=written, paths=["/v1/embeddings"]))[:2] == (403, "path_not_allowed")
    assert (await answer_to(engine, tmp_path, path=written, paths=[CHAT]))[0] == 200
    assert (await answer_to(engine, tmp_path, path="/v1%2Fmodels%2Fdemo-chat", paths=[CHAT]))[0] == 403


async def test_a_key_for_the_path_is_served(engine, tmp_path):
    assert (await answer_to(engine, tmp_path, paths=[CHAT]))[0] == 200


async def test_the_list_of_models_is_a_path_of_its_own(engine, tmp_path):
    assert (await answer_to(engine, tmp_path, path="/v1/models", paths=[CHAT]))[1] == "path_not_allowed"


async def test_a_key_of_another_network_is_refused_and_leaves_a_record(engine, tmp_path):
    answer = await answer_to(engine, tmp_path, networks=["192.0.2.0/24", "2001:db8::/32"])
    assert answer == (403, "address_not_allowed", ["rejected"])


async def test_a_key_of_the_clients_network_is_served(engine, tmp_path):
    assert (await answer_to(engine, tmp_path, networks=["127.0.0.0/8"]))[0] == 200


async def test_a_client_cannot_claim_an_address(engine, tmp_path):
    claimed = {"X-Forwarded-For": "192.0.2.1"}
    assert (await answer_to(engine, tmp_path, headers=claimed, networks=["192.0.2.0/24"]))[0] == 403


async def test_a_trusted_proxy_says_who_the_client_is(engine, tmp_path):
    claimed = {"X-Forwarded-For": "192.0.2.1"}
    answer = await answer_to(
        engine, tmp_path, headers=claimed, networks=["192.0.2.0/24"], trusted_proxies=["127.0.0.1/32"]
    )
    assert answer[0] == 200

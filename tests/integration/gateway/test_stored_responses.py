"""An engine that keeps answers keeps them for everybody: through the gateway nobody gets at them."""

import openai
import pytest

from tests.support.batches import sdk
from tests.support.gateways import response_body, running_gateway, snapshot_for
from tests.support.scripted_engine import scripted_engine, whole

pytestmark = pytest.mark.integration

PATH = "/v1/responses"
KEPT = b'{"id":"resp_1","object":"response","model":"demo-chat","output":[{"text":"a secret of another tenant"}]}'


@pytest.fixture
async def gateway(tmp_path):
    async with scripted_engine(whole(KEPT)) as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        async with running_gateway(tmp_path, snapshot) as running:
            running.engine = engine
            yield running


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items"), ("GET", "?stream=true")],
)
async def test_what_is_kept_is_not_found_as_an_engine_says_it(gateway, method, path):
    answer = await gateway.call(method, f"{PATH}/resp_1{path}")
    assert answer.status == 404
    assert answer.body == (
        b'{"error":{"message":"Response with id \'resp_1\' not found.","type":"invalid_request_error",'
        b'"param":"response_id","code":404}}'
    )
    assert gateway.engine.seen == []


async def test_an_answer_cannot_go_on_from_one_that_is_kept(gateway):
    answer = await gateway.call("POST", PATH, response_body(previous_response_id="resp_1"))
    assert (answer.status, answer.json()["error"]["param"]) == (404, "response_id")
    assert gateway.engine.seen == []
    [record] = gateway.records()
    assert (record.status, record.error_code, record.usage_source) == (404, "response_not_found", "none")


@pytest.mark.parametrize("background", [True, 1, "yes"])
async def test_nothing_is_made_unseen(gateway, background):
    answer = await gateway.call("POST", PATH, response_body(background=background))
    assert (answer.status, answer.json()["error"]["code"]) == (400, "background_unsupported")
    assert gateway.engine.seen == []


@pytest.mark.parametrize(
    "fields", [{"store": True}, {"store": False}, {"previous_response_id": None}, {"background": False}]
)
async def test_the_rest_passes(gateway, fields):
    answer = await gateway.call("POST", PATH, response_body(**fields))
    assert (answer.status, answer.body) == (200, KEPT)


async def test_the_sdk_sees_a_not_found_error_and_nobody_gets_one_without_a_key(gateway):
    async with sdk(gateway.port) as client:
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve("resp_1")
        with pytest.raises(openai.AuthenticationError):
            await client.with_options(api_key="ty-none").responses.retrieve("resp_1")

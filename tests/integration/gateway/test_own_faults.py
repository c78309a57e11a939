"""Bodies that only look like JSON, and faults of the gateway itself: one client gets an error, and nobody else."""

import asyncio
import json

import pytest

from tests.support.fake_engines import fake_engine
from tests.support.gateways import authorised, chat_body, running_gateway, snapshot_for
from tests.support.raw_http import exchange
from workers.gateway.attempts.asking import Question

pytestmark = pytest.mark.integration

PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings")
BODY = json.dumps(
    chat_body(stream=True, stream_options={}, priority=1, image_url="data:x", unknown="é", number=1), ensure_ascii=False
)
UNREADABLE = {
    "a name that is no text": BODY.replace("unknown", "\udcff"),
    "a value that is no text": BODY.replace("data:x", "data:\udcaf"),
    "a text that ends in the middle of a letter": BODY.replace("é", "\udcc3"),
    "a number that nobody reads": BODY.replace('"number": 1', '"number": ' + "1" * 5000),
}


@pytest.fixture
async def engine():
    async with fake_engine("--served-model-name", "another-name", "--time-scale", "0.3") as running:
        yield running


@pytest.fixture
async def gateway(engine, tmp_path):
    """The model has another name on the engine, so that something is to be set in every body."""
    async with running_gateway(tmp_path, snapshot_for(("another-name", 100, [engine.port]))) as running:
        yield running


def post(path, body):
    content = body.encode("utf-8", "surrogateescape")
    fields = authorised() | {"Content-Type": "application/json", "Content-Length": str(len(content))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{lines}\r\n".encode() + content


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
async def test_what_no_engine_could_read_is_refused_and_recorded(gateway, body):
    answers = [await exchange(gateway.port, post(path, body)) for path in PATHS]
    assert [answer.status for answer in answers] == [400] * len(PATHS)
    assert {record.outcome for record in gateway.records()} == {"rejected"}
    assert len(gateway.records()) == len(PATHS)


async def test_halves_of_surrogate_pairs_pass_as_engines_take_them(gateway):
    body = BODY.replace("hello there", "hello").replace('"unknown"', '"\ud800"')
    content = body.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
    answer = await exchange(gateway.port, post(PATHS[0], content))
    assert answer.status == 200


async def test_a_fault_in_asking_an_engine_leaves_no_place_taken_and_holds_up_nobody(gateway, monkeypatch):
    ask = Question.for_engine

    def faulty(question, engine, body):
        if question.peek.user == "faulty":
            raise RuntimeError("as no rule foresaw")
        return ask(question, engine, body)

    monkeypatch.setattr(Question, "for_engine", faulty)
    users = ["faulty", "sound"] * 6
    answers = await asyncio.gather(*[gateway.chat(user=user) for user in users])
    records = await gateway.wait_for_records(len(users))
    assert [answer.status for answer in answers] == [500, 200] * 6
    assert {answer.json()["error"]["code"] for answer in answers if answer.status != 200} == {"internal_error"}
    assert sorted(record.status for record in records) == [200] * 6 + [500] * 6
    assert gateway.service._driver.scheduler.running_total() == 0

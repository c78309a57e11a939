"""A real model on llama.cpp, started by its adapter."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.engines import get, post, running_engine
from tests.support.fake_engines import free_port
from tests.support.specs import replica_spec
from workers.engines.environments.install import install
from workers.engines.environments.recipes import LLAMACPP
from workers.engines.llamacpp.adapter import LlamaCppAdapter
from workers.engines.site import find_site

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

QUESTION = {"messages": [{"role": "user", "content": "Name three colours."}], "temperature": 0, "max_tokens": 16}


@pytest.fixture(scope="module")
def adapter():
    site = find_site(os.environ)
    install(LLAMACPP, site.cache, print)
    return LlamaCppAdapter(site)


@pytest.fixture(scope="module")
def chat_url(adapter, tmp_path_factory):
    spec = replica_spec(engine="llamacpp", source="smollm2-135m-instruct", port=free_port(), max_running_requests=4)
    with running_engine(adapter, spec, tmp_path_factory.mktemp("llamacpp") / "log") as url:
        yield url


def chat(url, **fields):
    status, body = post(f"{url}/v1/chat/completions", QUESTION | fields)
    assert status == 200
    return body


def test_it_answers_a_question_under_the_served_name(chat_url):
    answer = json.loads(chat(chat_url))
    assert answer["model"] == "demo"
    assert "Red" in answer["choices"][0]["message"]["content"]
    assert answer["usage"]["completion_tokens"] == 16


def test_a_chat_has_the_same_prompt_tokens_as_in_vllm(chat_url):
    """34, as recorded from vLLM: ChatML with SmolLM2's default system prompt."""
    assert json.loads(chat(chat_url))["usage"]["prompt_tokens"] == 34


def test_it_streams_and_ends_with_the_usage(chat_url):
    body = chat(chat_url, stream=True, stream_options={"include_usage": True}).decode()
    events = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    assert json.loads(events[-2])["usage"]["completion_tokens"] == 16
    assert len(events) > 10


def test_it_answers_several_at_once(chat_url):
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: json.loads(chat(chat_url)), range(4)))
    assert {answer["usage"]["completion_tokens"] for answer in answers} == {16}


def test_its_metrics_count_what_it_generated(chat_url, adapter):
    before = adapter.read_metrics(get(f"{chat_url}/metrics").decode())
    chat(chat_url)
    after = adapter.read_metrics(get(f"{chat_url}/metrics").decode())
    assert after.generated_tokens_total - before.generated_tokens_total == 16
    assert after.running_requests == 0


def test_it_embeds(adapter, tmp_path):
    spec = replica_spec(engine="llamacpp", source="smollm2-135m-instruct", task="embed", port=free_port())
    with running_engine(adapter, spec, tmp_path / "log") as url:
        status, body = post(f"{url}/v1/embeddings", {"model": "demo", "input": ["a cat", "a dog", "tax law"]})
    assert status == 200
    cat, dog, law = (item["embedding"] for item in json.loads(body)["data"])
    assert len(cat) == 576
    assert similarity(cat, dog) > similarity(cat, law)


def similarity(one, other):
    return sum(left * right for left, right in zip(one, other, strict=True))

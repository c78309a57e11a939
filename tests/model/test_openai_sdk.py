"""A real language model through the whole stack, asked as its users ask it: with the openai SDK."""

import math

import openai
import pytest

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

CAPITAL = [{"role": "user", "content": "What is the capital of France? Answer with one word."}]


def test_it_answers_like_a_language_model(client, demo):
    answer = client.chat.completions.create(model=demo["model"], messages=CAPITAL, max_tokens=16, temperature=0)
    assert "paris" in answer.choices[0].message.content.lower()
    assert answer.model == demo["model"]
    assert answer.usage.prompt_tokens > 5
    assert 0 < answer.usage.completion_tokens <= 16


def test_a_stream_comes_in_pieces_and_ends_with_the_usage(client, demo):
    stream = client.chat.completions.create(
        model=demo["model"], messages=CAPITAL, max_tokens=16, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text.strip()
    assert len(chunks) > 2
    assert chunks[-1].usage.completion_tokens > 0


def test_a_text_is_completed(client, demo):
    answer = client.completions.create(model=demo["model"], prompt="One, two, three,", max_tokens=8, temperature=0)
    assert "four" in answer.choices[0].text


def test_embeddings_put_like_near_like(client, demo):
    sentences = ["A cat sleeps on the sofa.", "A kitten naps on the couch.", "The central bank raised interest rates."]
    answer = client.embeddings.create(model=demo["embedding_model"], input=sentences)
    cat, kitten, bank = (one.embedding for one in answer.data)
    assert cosine(cat, kitten) > cosine(cat, bank)


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)


def test_the_models_are_listed_by_their_public_names(client, demo):
    assert {model.id for model in client.models.list()} == {demo["model"], demo["embedding_model"]}


def test_a_bad_key_is_refused(client, demo):
    stranger = client.with_options(api_key="ty-aaaaaaaa-wrong")
    with pytest.raises(openai.AuthenticationError):
        stranger.chat.completions.create(model=demo["model"], messages=CAPITAL)


def test_an_unknown_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="gpt-none", messages=CAPITAL)


def test_a_prompt_that_is_too_long_is_a_bad_request(client, demo):
    long = [{"role": "user", "content": "word " * 20_000}]
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model=demo["model"], messages=long, max_tokens=4)

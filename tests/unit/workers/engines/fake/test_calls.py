import pytest

from workers.engines.fake.calls import decode_body, read_chat, read_completion
from workers.engines.fake.errors import APIError
from workers.engines.fake.inputs import read_embedding
from workers.engines.fake.scoring import read_rerank
from workers.engines.fake.served import Served
from workers.engines.fake.words import TokenIds

pytestmark = pytest.mark.unit

SERVED = Served(name="m", task="generate", max_model_tokens=100)
SERVED_TO_EMBED = Served(name="m", task="embed", max_model_tokens=100)
MESSAGES = [{"role": "user", "content": "hello there"}]


def chat(header=None, **fields):
    return read_chat({"model": "m", "messages": MESSAGES} | fields, SERVED, header)


def completion(**fields):
    return read_completion({"model": "m"} | fields, SERVED, None, TokenIds())


def refusal(call, *arguments, **fields):
    with pytest.raises(APIError) as caught:
        call(*arguments, **fields)
    return caught.value


def test_numbers_in_strings_are_read_as_pydantic_reads_them():
    assert chat(max_tokens="7").max_tokens == 7
    assert chat(temperature="0.5").temperature == 0.5
    assert chat(stream="yes").is_stream


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 1.5}, "body.max_tokens"),
        ({"n": []}, "body.n"),
        ({"stream": "perhaps"}, "body.stream"),
        ({"temperature": {}}, "body.temperature"),
        ({"messages": "hello"}, "body.messages"),
        ({"messages": [{"content": "nobody"}]}, "body.messages.0.role"),
        ({"stop": 5}, "body.stop"),
        ({"stream_options": 3}, "body.stream_options"),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(fields, param):
    error = refusal(chat, **fields)
    assert (error.status, error.body["error"]["param"]) == (400, param)


def test_all_wrong_fields_are_named_at_once():
    message = str(refusal(chat, n="many", temperature="hot"))
    assert message.startswith("2 validation errors:\n")


def test_max_completion_tokens_goes_before_max_tokens():
    assert chat(max_completion_tokens=5, max_tokens=9).max_tokens == 5


def test_priority_comes_from_the_body_or_else_from_the_header():
    assert chat("-3", priority=2).priority == 2
    assert chat("-3").priority == -3
    assert chat("urgent").priority == 0


def test_a_completion_without_max_tokens_gets_sixteen():
    assert completion(prompt="once upon a time").max_tokens == 16


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("two words", [["two", " words"]]),
        (["one", "two"], [["one"], ["two"]]),
        ([[0, 1], [0]], 2),
        ([0, 1, 2], 1),
    ],
)
def test_prompts_are_texts_or_ids_one_or_many(prompt, prompts):
    read = completion(prompt=prompt).prompts
    assert read == prompts or len(read) == prompts


@pytest.mark.parametrize("prompt", [None, "", [], 5, {}])
def test_an_empty_prompt_is_refused(prompt):
    assert refusal(completion, prompt=prompt).status == 400


def test_an_answer_is_cut_to_what_the_prompt_leaves_of_the_context():
    """As vLLM 0.32 does, without an error."""
    call = completion(prompt="w" + " w" * 59, max_tokens=50)
    assert call.limit_tokens(call.prompts[0], SERVED) == 40


def test_a_prompt_that_leaves_no_room_for_an_answer_is_refused():
    assert "at least 100 input tokens" in str(refusal(completion, prompt="w" + " w" * 99, max_tokens=1))


def test_refusals_are_worded_as_vllm_words_them():
    """From vLLM 0.32 on the CPU."""
    assert str(refusal(completion)) == (
        "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)"
    )
    assert str(refusal(chat, n=0)) == "n must be at least 1, got 0."
    assert str(refusal(chat, top_p=2)) == "top_p must be in (0, 1], got 2.0. (parameter=top_p, value=2.0)"
    assert str(refusal(chat, logprobs=True, top_logprobs=50)) == (
        "Requested sample logprobs of 50, which is greater than max allowed: 20 (parameter=logprobs, value=50)"
    )


@pytest.mark.parametrize("fields", [{"n": 0}, {"top_p": 0}, {"top_p": 1.5}, {"max_tokens": 0}, {"stop": [""]}])
def test_values_out_of_range_are_refused(fields):
    assert refusal(chat, **fields).status == 400


def test_stream_options_need_a_stream():
    assert "stream=True" in str(refusal(chat, stream_options={"include_usage": True}))


@pytest.mark.parametrize("body", [b"[]", b"5", b"null", b"{", b"", b"\xff\xfe{}"])
def test_a_body_that_is_no_object_is_refused(body):
    assert refusal(decode_body, body).status == 400


@pytest.mark.parametrize("nothing", ["", [], ["a", ""], [[]]])
def test_nothing_cannot_be_embedded(nothing):
    error = refusal(read_embedding, {"model": "m", "input": nothing}, SERVED_TO_EMBED, None, TokenIds())
    assert (error.status, error.body["error"]["message"]) == (400, "The decoder prompt cannot be empty")


def test_nothing_cannot_be_compared_with_anything():
    error = refusal(read_rerank, {"model": "m", "query": "", "documents": ["a"]}, SERVED_TO_EMBED)
    assert error.status == 400


def test_an_embedding_needs_input():
    error = refusal(read_embedding, {"model": "m"}, SERVED, None, TokenIds())
    assert error.body["error"]["param"] == "body.input"


def test_texts_in_content_parts_are_read():
    parts = [{"type": "text", "text": "hello"}, {"type": "text", "text": "there"}]
    assert " there" not in chat(messages=[{"role": "user", "content": parts}]).prompts[0]
    assert len(chat(messages=[{"role": "user", "content": parts}]).prompts[0]) > len(chat(messages=[]).prompts[0])

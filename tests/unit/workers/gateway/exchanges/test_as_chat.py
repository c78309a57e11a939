import pytest

from workers.gateway.exchanges.as_chat import chat_of_message, chat_of_response

pytestmark = pytest.mark.unit

USER = {"role": "user", "content": "hi"}
MESSAGE = {"model": "m", "max_tokens": 5, "stream": True, "messages": [USER]}
RESPONSE = {"model": "m", "max_output_tokens": 5, "stream": True, "input": "hi"}
IMAGE = {"type": "image", "source": {"type": "url", "url": "http://x"}}


def in_blocks(*texts):
    return [{"type": "text", "text": text} for text in texts]


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        ({}, [USER]),
        ({"system": "Be brief."}, [{"role": "system", "content": "Be brief."}, USER]),
        ({"system": in_blocks("Be ", "brief.")}, [{"role": "system", "content": "Be brief."}, USER]),
        ({"messages": [{"role": "user", "content": in_blocks("hi")}]}, [USER]),
        ({"messages": [USER, {"role": "assistant", "content": "so"}]}, [USER, {"role": "assistant", "content": "so"}]),
        ({"tools": [], "thinking": None, "system": ""}, [USER]),
    ],
)
def test_a_message_becomes_the_chat_that_vllm_makes_of_it(fields, messages):
    assert chat_of_message(MESSAGE | fields) == {"model": "m", "messages": messages}


def test_how_it_is_sampled_goes_along_under_a_chats_names():
    asked = MESSAGE | {
        "temperature": 0,
        "top_p": 0.5,
        "top_k": 3,
        "stop_sequences": ["x"],
        "metadata": {"user_id": "u"},
    }
    found = chat_of_message(asked)
    assert found == {"model": "m", "messages": [USER], "temperature": 0, "top_p": 0.5, "top_k": 3, "stop": ["x"]}


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"name": "f"}]},
        {"thinking": {"type": "enabled"}},
        {"system": "x-anthropic-billing-header: a"},
        {"system": [IMAGE]},
        {"messages": [{"role": "user", "content": [IMAGE]}]},
        {"messages": [{"role": "user", "content": in_blocks("a", "b")}]},
        {"messages": [{"role": "wizard", "content": "a"}]},
        {"messages": ["hi"]},
        {"messages": []},
        {"messages": None},
        {"anything": "new"},
    ],
)
def test_of_a_message_that_is_not_certain_none_is_made(fields):
    assert chat_of_message(MESSAGE | fields) is None


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        ({}, [USER]),
        ({"instructions": "Be brief."}, [{"role": "system", "content": "Be brief."}, USER]),
        ({"input": [USER]}, [USER]),
        ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]}, [USER]),
        ({"user": "u", "metadata": {"a": "b"}, "store": False, "tools": []}, [USER]),
    ],
)
def test_a_response_becomes_the_chat_that_vllm_makes_of_it(fields, messages):
    assert chat_of_response(RESPONSE | fields) == {"model": "m", "messages": messages}


@pytest.mark.parametrize(
    "fields",
    [
        {"input": [{"role": "assistant", "status": "incomplete", "content": "so"}]},
        {"input": [{"type": "function_call", "name": "f"}]},
        {"input": []},
        {"input": 5},
        {"text": {"format": {"type": "json_object"}}},
        {"reasoning": {"effort": "low"}},
        {"include": ["message.output_text.logprobs"]},
        {"previous_response_id": "resp_1"},
    ],
)
def test_of_a_response_that_is_not_certain_none_is_made(fields):
    assert chat_of_response(RESPONSE | fields) is None

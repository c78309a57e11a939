import pytest

from workers.gateway.apis.openai import Audio

pytestmark = pytest.mark.unit


def test_a_transcription_counted_in_seconds_tells_no_tokens():
    assert Audio().read_answer(b'{"text":"hello","usage":{"type":"duration","seconds":3}}').usage is None


def test_a_transcription_counted_in_tokens_does():
    body = b'{"text":"hello","usage":{"type":"tokens","input_tokens":14,"output_tokens":2,"total_tokens":16}}'
    usage = Audio().read_answer(body).usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (14, 2)


def test_a_transcription_as_plain_text_tells_nothing():
    assert Audio().read_answer(b"1\n00:00:01 --> 00:00:02\nhello\n").usage is None

"""Completions as vLLM's own tests of its entry point ask for them."""

from typing import Any

_SKY = [504, 6376, 314]  # three tokens of the model's vocabulary
_WITH_USAGE = {"stream_options": {"include_usage": True}}
_COUNTING = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}

# Asked for as a stream, and some of them whole too.
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "a batch": {"prompt": ["The sky is", "The sea is"]},
    "a batch of one": {"prompt": ["The sky is"]},
    "token ids": {"prompt": _SKY},
    "a batch of token ids": {"prompt": [_SKY, _SKY[:2]]},
    "a batch with two choices each": {"prompt": ["The sky", "The sea"], "n": 2, "temperature": 1, "seed": 3},
    "echo": {"echo": True},
    "echo of a batch": {"echo": True, "prompt": ["The sky is", "The sea is"]},
    "echo with logprobs": {"echo": True, "logprobs": 1},
    "echo of token ids": {"echo": True, "prompt": _SKY},
    "logprobs": {"logprobs": 5},
    "logprobs of the token alone": {"logprobs": 0},
    "one token": {"max_tokens": 1},
    "how much it gives unasked": {"max_tokens": None},
    "a seed": {"temperature": 1, "seed": 11},
    "a stop": {"stop": ["blue", "."]},
    "a stop in it": {"stop": ["blue", "."], "include_stop_str_in_output": True},
    "minimum of tokens": {"min_tokens": 3, "stop_token_ids": [30]},
    "penalties": {"presence_penalty": 1.0, "frequency_penalty": 1.0, "repetition_penalty": 1.1},
    "a bias": {"logit_bias": {"30": 100}},
    "allowed tokens": {"allowed_token_ids": [28, 29, 30]},
    "returned token ids": {"return_token_ids": True},
    "tokens as ids": {"logprobs": 1, "return_tokens_as_token_ids": True},
    "structured by a choice": {"structured_outputs": {"choice": ["blue", "grey"]}},
    "structured by a regex": {"structured_outputs": {"regex": "[0-9]{4}"}},
    "structured by JSON": {"structured_outputs": {"json": {"type": "integer", "maximum": 9}}},
    "a format": {"response_format": {"type": "json_object"}, "max_tokens": 12},
    "a cut prompt": {"prompt": "The sky is blue and the sea is", "truncate_prompt_tokens": 4},
    "without special tokens": {"add_special_tokens": False, "skip_special_tokens": False},
    "a user": {"user": "u-1", "x_unknown": [1]},
    "several languages": {"prompt": "日本 🇫🇷 \u2028"},
}

ALSO_WHOLE = (
    "plain",
    "a batch with two choices each",
    "echo with logprobs",
    "token ids",
    "how much it gives unasked",
    "returned token ids",
    "tokens as ids",
    "structured by a regex",
    "several languages",
)

WHOLE: dict[str, dict[str, Any]] = {
    "no new tokens": {"max_tokens": 0, "echo": True},
    "no new tokens with logprobs": {"max_tokens": 0, "echo": True, "logprobs": 1},
    "logprobs of the prompt": {"prompt_logprobs": 2},
    "all logprobs of the prompt": {"prompt_logprobs": 0, "echo": True},
    "beams": {"use_beam_search": True, "n": 2, "max_tokens": 4},
    "several languages in a batch": {"prompt": ["日", "🇫🇷"]},
}

STREAMS: dict[str, dict[str, Any]] = {
    "usage": _WITH_USAGE,
    "usage that counts along": _COUNTING,
    "usage of a batch": {"prompt": ["The sky is", "The sea is"]} | _WITH_USAGE,
    "counts of a batch": {"prompt": ["The sky is", "The sea is"]} | _COUNTING,
    "counts of two choices": {"n": 2, "temperature": 1, "seed": 3} | _COUNTING,
    "counts without usage": {"stream_options": {"include_usage": False, "continuous_usage_stats": True}},
    "no new tokens": {"max_tokens": 0, "echo": True},
}

REFUSED: dict[str, dict[str, Any]] = {
    "no prompt": {"prompt": None},
    "an empty prompt": {"prompt": ""},
    "an empty batch": {"prompt": []},
    "a wrong prompt": {"prompt": {"text": "x"}},
    "ids beyond the vocabulary": {"prompt": [9_999_999]},
    "no tokens without an echo": {"max_tokens": 0},
    "fewer than none": {"max_tokens": -1},
    "more than there is room for": {"max_tokens": 100_000},
    "fewer best than asked for": {"best_of": 1, "n": 2},
    "a suffix": {"suffix": "end"},
    "too many logprobs": {"logprobs": 500},
    "negative logprobs": {"logprobs": -2},
    "a wrong type": {"temperature": "hot"},
    "a wrong n": {"n": -1},
    "a wrong regex": {"structured_outputs": {"regex": "[("}},
    "an unknown structure": {"structured_outputs": {"shape": "round"}},
    "too long": {"prompt": "word " * 5000},
    "options without a stream": {"stream_options": {"include_usage": True}, "stream": False},
    "logprobs of a streamed prompt": {"prompt_logprobs": 1, "stream": True},
    "embeddings": {"prompt_embeds": "AAAA"},
    "embeddings that are none": {"prompt": None, "prompt_embeds": "AAAA"},
}


def body(fields: dict[str, Any], *, stream: bool | None = None) -> dict[str, Any]:
    asked = {"model": "demo-chat", "prompt": "The sky is", "max_tokens": 4, "temperature": 0} | fields
    return asked if stream is None else asked | {"stream": stream}

import pytest

from workers.engines.fake.options import build_parser, engine_options

pytestmark = pytest.mark.unit


def options(*arguments):
    return engine_options(build_parser().parse_args(arguments))


def test_an_unknown_profile_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="llama3-8b/h100/tp1"):
        options("--profile", "abacus")


def test_a_cache_that_does_not_hold_one_request_is_refused():
    with pytest.raises(ValueError, match="do not hold one request"):
        options("--num-gpu-blocks-override", "10", "--max-model-len", "161")


def test_the_cache_is_as_large_as_the_profile_says():
    assert options("--profile", "llama3-8b/l4/tp1", "--block-size", "16").kv_blocks == 26951 // 16


def test_a_time_scale_makes_steps_slower():
    step = {"tokens": 1, "sequences": 1, "context_tokens": 10, "attention_pairs": 0}
    slow, real = (options("--time-scale", scale).cost.step_s(**step) for scale in ("3", "1"))
    assert slow == pytest.approx(3 * real)

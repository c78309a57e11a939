import pytest

from workers.engines.costs import load_profiles

pytestmark = pytest.mark.unit


def step(tokens, sequences, context_tokens, attention_pairs):
    return {
        "tokens": tokens,
        "sequences": sequences,
        "context_tokens": context_tokens,
        "attention_pairs": attention_pairs,
    }


# examples_ms of the published file, from which the profiles were taken
EXAMPLES = [
    ("llama3-8b/h100/tp1", step(1, 1, 1024, 0), 7.04),
    ("llama3-8b/h100/tp1", step(32, 32, 32 * 2048, 0), 10.26),
    ("llama3-8b/a100/tp1", step(128, 128, 128 * 1024, 0), 26.61),
    ("llama3-70b/h200/tp4", step(2048, 1, 0, 2048 * 1024), 121.69),
]


@pytest.mark.parametrize(("profile", "work", "milliseconds"), EXAMPLES)
def test_steps_take_as_long_as_the_published_examples(profile, work, milliseconds):
    assert load_profiles()[profile].step_s(**work) * 1000 == pytest.approx(milliseconds, rel=0.02)


def test_a_scaled_engine_is_slower_by_the_factor():
    cost = load_profiles()["llama3-8b/l4/tp1"]
    work = step(300, 20, 5000, 40_000)
    assert cost.scaled(10).step_s(**work) == pytest.approx(10 * cost.step_s(**work))

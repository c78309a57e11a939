"""Models that are not one stack of like layers, against hand calculations and their makers' figures."""

import pytest

from apps.registry.policies.architecture import ConfigError, read_architecture
from apps.registry.policies.memory import GIB, Serving, estimate_memory, kv_bytes_per_token, read_facts
from apps.registry.policies.needs import Registered, need_of, problem_of_width
from apps.registry.policies.weights import count_parameters
from tests.support import model_configs as configs
from tests.support import odd_models as odd

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("config", "billions"),
    [
        (odd.GEMMA3_4B, 3.88),
        (odd.GEMMA3_27B, 27.0),
        (odd.GEMMA2_9B, 9.24),
        (odd.MISTRAL_7B, 7.24),
        (odd.LLAVA_7B, 6.74),
        (odd.WHISPER_LARGE_V3, 1.54),
        (odd.FALCON_MAMBA_7B, 7.27),
        (odd.BGE_M3, 0.568),
        (odd.QWEN3_NEXT_80B, 80.0),
        (odd.NEMOTRON_H_8B, 8.1),
        (odd.JAMBA_MINI, 51.6),
        (odd.LLAMA4_MAVERICK, 400.0),
        (odd.PHI3_MINI, 3.82),
        (odd.DEEPSEEK_V2_LITE, 15.7),
    ],
)
def test_parameters_are_those_that_the_makers_give(config, billions):
    assert count_parameters(read_architecture(config)).total / 1e9 == pytest.approx(billions, rel=0.03)


@pytest.mark.parametrize(
    ("config", "count_bytes"),
    [
        (odd.GEMMA3_27B, 2 * 62 * 16 * 128 * 2),
        (odd.DEEPSEEK_V2_LITE, 27 * (512 + 64) * 2),
        (odd.QWEN3_NEXT_80B, 2 * 12 * 2 * 256 * 2),
        (odd.NEMOTRON_H_8B, 2 * 4 * 8 * 128 * 2),
        (odd.JAMBA_MINI, 2 * 4 * 8 * 128 * 2),
        (odd.FALCON_MAMBA_7B, 0),
        (odd.BGE_M3, 0),
        (odd.WHISPER_LARGE_V3, 2 * 32 * 1280 * 2),
    ],
)
def test_only_layers_that_attend_cache_a_token(config, count_bytes):
    assert kv_bytes_per_token(read_architecture(config)) == count_bytes


def test_a_layer_with_a_window_keeps_no_more_than_that_and_a_step():
    """Ten of its 62 layers keep all 131,072 tokens, the others 1,024 and the 2,048 of a step."""
    estimate = estimate_memory(read_facts(odd.GEMMA3_27B), Serving(max_batched_tokens=2048))
    each_layer = 2 * 16 * 128 * 2
    assert estimate.kv_bytes == pytest.approx(each_layer * (10 * 131_072 + 52 * 3_072), rel=1e-6)


def test_recurrent_layers_keep_a_state_for_every_request():
    """Of each of 24 layers: 128 heads of 64 by 128, and three tokens of what is convolved."""
    each = 128 * 64 * 128 + 3 * (128 * 64 + 2 * 8 * 128)
    estimate = estimate_memory(read_facts(odd.NEMOTRON_H_8B), Serving(max_sequences=10))
    assert estimate.state_bytes == 24 * each * 10 * 4
    assert estimate.fixed_bytes > estimate.weights_bytes + estimate.state_bytes


def test_what_is_heard_is_cached_beside_what_is_said():
    estimate = estimate_memory(read_facts(odd.WHISPER_LARGE_V3), Serving())
    assert estimate.kv_tokens == 448 + 1500


def test_a_model_that_caches_nothing_has_no_room_to_speak_of():
    need = need_of(_registered(odd.BGE_M3), tensor_parallel=1, pipeline_parallel=1, max_running_requests=64)
    assert need.kv_tokens_on(80 * GIB) is None
    assert need.memory.kv_bytes == 0


def test_a_way_of_storing_weights_that_nobody_knows_is_no_reason_to_know_nothing():
    quark = configs.LLAMA3_8B | {"quantization_config": {"quant_method": "quark"}}
    with pytest.raises(ConfigError, match="how many bits"):
        read_facts(quark)
    facts = read_facts(quark, file_bytes=5 * GIB)
    assert (facts.weight_bytes, facts.precision) == (5 * GIB, "quark")


def test_adapters_take_room_by_their_number_and_rank():
    arguments = {"extra": ["--max-loras", "4", "--max-lora-rank=64"]}
    plain, adapted = (
        need_of(
            _registered(configs.LLAMA3_8B, engine_args=arguments, has_adapters=has),
            tensor_parallel=1,
            pipeline_parallel=1,
            max_running_requests=64,
        ).memory.weights_bytes
        for has in (False, True)
    )
    ends = 4 * 4096 + 2 * (32 + 8) * 128 + 3 * (4096 + 14336)
    assert adapted - plain == 4 * 64 * 32 * ends * 2


def _registered(config, engine_args=None, **facts):
    blank = {"weight_bytes": None, "quantisation": "", "max_context_tokens": None}
    return Registered(config=config, engine_args=engine_args or {}, **blank, **facts)


def test_a_width_that_does_not_divide_the_heads_is_answered_with_those_that_do():
    said = problem_of_width(_registered(configs.QWEN25_7B), 8)
    assert said == "tensor_parallel 8 does not divide the model's 28 attention heads; 1, 2, 4, 7, 14, 28 do"
    assert problem_of_width(_registered(configs.QWEN25_7B), 4) == ""
    assert problem_of_width(_registered(odd.FALCON_MAMBA_7B), 8) == problem_of_width(_registered({}), 8) == ""
    assert problem_of_width(_registered({"model_type": "broken"}), 8) == ""

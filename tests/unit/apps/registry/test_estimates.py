"""Against figures that the models' makers and the published files' sizes give."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.registry.policies.architecture import ConfigError, read_architecture
from apps.registry.policies.memory import (
    GIB,
    Measured,
    Serving,
    corrected,
    estimate_memory,
    kv_bytes_per_token,
    kv_bytes_per_token_on_gpu,
    read_facts,
)
from apps.registry.policies.speed import GPUSpeed, estimate_speed
from apps.registry.policies.weights import count_parameters, gguf_precision
from tests.support import model_configs as configs

pytestmark = pytest.mark.unit

H100 = GPUSpeed(hbm_bytes_per_s=3350e9, bf16_flops=989e12, has_fp8=True)


@pytest.mark.parametrize(
    ("config", "billions"),
    [
        (configs.LLAMA2_7B, 6.738),
        (configs.LLAMA3_8B, 8.030),
        (configs.LLAMA3_70B, 70.554),
        (configs.QWEN25_05B, 0.494),
        (configs.QWEN25_7B, 7.616),
        (configs.SMOLLM2_135M, 0.1345),
        (configs.MIXTRAL_8X7B, 46.703),
        (configs.QWEN3_30B_A3B, 30.53),
        (configs.DEEPSEEK_V3, 671.0),
        (configs.DBRX, 131.6),
    ],
)
def test_parameters_are_those_that_the_makers_give(config, billions):
    assert count_parameters(read_architecture(config)).total / 1e9 == pytest.approx(billions, rel=0.002)


@pytest.mark.parametrize(
    ("config", "billions"),
    [(configs.MIXTRAL_8X7B, 12.9), (configs.QWEN3_30B_A3B, 3.3), (configs.DEEPSEEK_V3, 37.0)],
)
def test_of_a_mixture_of_experts_a_token_meets_a_part(config, billions):
    """Makers differ in whether the embeddings count."""
    assert count_parameters(read_architecture(config)).active / 1e9 == pytest.approx(billions, rel=0.08)


@pytest.mark.parametrize(
    ("config", "kib"),
    [
        (configs.LLAMA2_7B, 512),
        (configs.LLAMA3_8B, 128),
        (configs.LLAMA3_70B, 320),
        (configs.QWEN25_7B, 56),
        (configs.MIXTRAL_8X7B, 128),
        (configs.DEEPSEEK_V3, 68.625),
    ],
)
def test_a_token_in_the_cache_takes_what_its_attention_says(config, kib):
    assert kv_bytes_per_token(read_architecture(config)) == kib * 1024


def test_a_cache_in_fp8_is_half_as_large():
    model = read_architecture(configs.LLAMA3_8B)
    assert kv_bytes_per_token(model, "fp8") == 64 * 1024


@pytest.mark.parametrize(
    ("config", "changes", "gigabytes"),
    [
        (configs.LLAMA3_8B, {}, 16.06),
        (configs.LLAMA3_70B, {}, 141.1),
        (configs.LLAMA3_8B, {"quantization_config": configs.AWQ}, 5.73),
        (configs.LLAMA3_70B, {"quantization_config": configs.GPTQ}, 39.8),
        (configs.LLAMA3_70B, {"quantization_config": {"quant_method": "fp8"}}, 72.7),
        (configs.DEEPSEEK_V3, {}, 673.0),
    ],
)
def test_weights_take_what_the_published_files_take(config, changes, gigabytes):
    facts = read_facts(config | changes)
    assert facts.weight_bytes / 1e9 == pytest.approx(gigabytes, rel=0.03)
    assert not facts.weights_are_exact


@pytest.mark.parametrize(
    ("config", "stored", "gigabytes"),
    [
        (configs.GPT_OSS_20B, {}, 13.8),
        (configs.LLAMA4_SCOUT, {}, 217.3),
        (configs.LLAMA3_8B, {"quant_method": "bitsandbytes", "load_in_4bit": True}, 5.9),
        (configs.LLAMA3_8B, {"quant_method": "bitsandbytes", "load_in_8bit": True}, 9.1),
        (configs.LLAMA3_8B, {"quant_method": "modelopt", "quant_algo": "NVFP4"}, 6.0),
    ],
)
def test_so_do_those_whose_config_says_it_in_words_of_its_own(config, stored, gigabytes):
    facts = read_facts(config | ({"quantization_config": stored} if stored else {}))
    assert facts.weight_bytes / 1e9 == pytest.approx(gigabytes, rel=0.03)


@pytest.mark.parametrize(("mixture", "gigabytes"), [("Q4_K_M", 4.92), ("Q5_K_M", 5.73), ("Q8_0", 8.54), ("Q4_0", 4.66)])
def test_a_gguf_file_takes_what_its_mixture_says(mixture, gigabytes):
    assert read_facts(configs.LLAMA3_8B, quantisation=mixture).weight_bytes / 1e9 == pytest.approx(gigabytes, rel=0.01)


def test_the_index_is_believed_before_any_formula():
    facts = read_facts(configs.LLAMA3_8B, index={"metadata": {"total_size": 16_060_522_496}, "weight_map": {}})
    assert (facts.weight_bytes, facts.weights_are_exact) == (16_060_522_496, True)


def test_an_index_of_full_weights_says_nothing_of_weights_that_are_quantised_while_loading():
    facts = read_facts(configs.LLAMA3_8B, index={"metadata": {"total_size": 16_060_522_496}}, quantisation="fp8")
    assert facts.weight_bytes / 1e9 == pytest.approx(9.08, rel=0.01)


def test_tensor_parallel_divides_weights_and_heads_but_not_a_latent_cache():
    llama, deepseek = read_facts(configs.LLAMA3_70B), read_facts(configs.DEEPSEEK_V3)
    wide = Serving(tensor_parallel=8, kv_tokens=1000)
    assert estimate_memory(llama, wide).weights_bytes == llama.weight_bytes // 8
    assert kv_bytes_per_token_on_gpu(llama.model, wide) == 40 * 1024
    assert kv_bytes_per_token_on_gpu(deepseek.model, wide) == 68.625 * 1024
    assert kv_bytes_per_token_on_gpu(llama.model, Serving(tensor_parallel=16)) == 40 * 1024


def test_pipeline_stages_divide_both():
    llama = read_facts(configs.LLAMA3_70B)
    two = Serving(pipeline_parallel=2, kv_tokens=1000)
    assert estimate_memory(llama, two).weights_bytes == llama.weight_bytes // 2
    assert kv_bytes_per_token_on_gpu(llama.model, two) == 160 * 1024


def test_llama_70b_needs_two_large_gpus_and_eight_billion_fit_one_small():
    whole = estimate_memory(read_facts(configs.LLAMA3_70B), Serving())
    assert whole.total_bytes > 80 * GIB
    assert estimate_memory(read_facts(configs.LLAMA3_70B), Serving(tensor_parallel=2)).total_bytes < 80 * GIB
    small = estimate_memory(read_facts(configs.LLAMA3_8B), Serving(max_context_tokens=8192))
    assert 16 * GIB < small.total_bytes < 24 * GIB


def test_what_is_left_of_a_gpu_is_cache():
    facts = read_facts(configs.LLAMA3_8B)
    serving = Serving(max_context_tokens=8192)
    estimate = estimate_memory(facts, serving)
    tokens = estimate.kv_tokens_on(int(0.9 * 80 * GIB), kv_bytes_per_token_on_gpu(facts.model, serving))
    assert 420_000 < tokens < 470_000


def test_a_sliding_window_is_read():
    model = read_architecture(configs.LLAMA3_8B | {"sliding_window": 4096, "sliding_window_pattern": 6})
    assert (model.kinds.window_tokens, model.kinds.windowed) == (4096, 27)
    assert read_architecture(configs.QWEN25_7B).kinds.window_tokens is None


def test_a_model_that_also_sees_is_read_by_its_text_part():
    config = {"model_type": "llava", "text_config": configs.LLAMA3_8B, "vision_config": {"hidden_size": 1024}}
    assert read_architecture(config).hidden == 4096


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "hidden_size"),
        (configs.LLAMA3_8B | {"num_hidden_layers": "32"}, "num_hidden_layers"),
        (configs.LLAMA3_8B | {"vocab_size": -1}, "vocab_size"),
        (configs.LLAMA3_8B | {"quantization_config": {"quant_method": "awq"}}, "bits"),
        (configs.LLAMA3_8B | {"quantization_config": {"quant_method": "gptq", "bits": True}}, "bits"),
        (configs.LLAMA3_8B | {"hidden_size": 8}, "32 heads for a hidden size of 8"),
        (configs.LLAMA3_8B | {"num_key_value_heads": 4096}, "4096 heads of keys"),
        (configs.LLAMA3_8B | dict.fromkeys(("num_hidden_layers", "hidden_size"), 2**39), "no machine"),
    ],
)
def test_a_config_that_does_not_do_says_what_is_wrong(config, words):
    with pytest.raises(ConfigError, match=words):
        read_facts(config)


def test_a_word_for_quantisation_that_means_nothing_is_refused():
    with pytest.raises(ConfigError, match="'int3'"):
        read_facts(configs.LLAMA3_8B, quantisation="int3")


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(configs.DEEPSEEK_V3)), st.none() | st.integers() | st.text(max_size=3)))
def test_no_config_does_worse_than_be_refused(changes):
    try:
        facts = read_facts(configs.DEEPSEEK_V3 | changes)
    except ConfigError:
        return
    assert estimate_memory(facts, Serving()).total_bytes > 0


@pytest.mark.parametrize(
    ("name", "mixture"),
    [
        ("Meta-Llama-3-8B.Q4_K_M.gguf", "Q4_K_M"),
        ("smollm2-135m-instruct-q8_0.gguf", "Q8_0"),
        ("SmolLM2.Q4_1.gguf", "Q4_1"),
    ],
)
def test_a_gguf_files_name_says_its_mixture(name, mixture):
    assert gguf_precision(name).name == mixture


def test_a_name_that_says_nothing_is_unknown():
    assert gguf_precision("model.gguf") is None


def test_decoding_is_bounded_by_reading_the_weights():
    speed = estimate_speed(read_facts(configs.LLAMA3_8B), Serving(), H100)
    assert 6 < speed.tpot_ms < 10
    assert speed.output_tokens_per_s == pytest.approx(1000 / speed.tpot_ms)


def test_prefill_is_bounded_by_arithmetic():
    speed = estimate_speed(read_facts(configs.LLAMA3_8B), Serving(), H100)
    assert 25_000 < speed.prefill_tokens_per_s < 40_000


def test_batches_more_gpus_and_fewer_bits_make_it_faster():
    plain = read_facts(configs.LLAMA3_70B)
    small = read_facts(configs.LLAMA3_70B | {"quantization_config": configs.AWQ})
    one = estimate_speed(plain, Serving(tensor_parallel=4), H100)
    assert (
        estimate_speed(plain, Serving(tensor_parallel=4), H100, batch=16).output_tokens_per_s
        > 10 * one.output_tokens_per_s
    )
    assert estimate_speed(plain, Serving(tensor_parallel=8), H100).tpot_ms < one.tpot_ms
    assert estimate_speed(small, Serving(tensor_parallel=4), H100).tpot_ms < one.tpot_ms


def test_a_mixture_of_experts_decodes_as_fast_as_what_a_token_meets():
    sparse = estimate_speed(read_facts(configs.QWEN3_30B_A3B), Serving(), H100)
    dense = estimate_speed(read_facts(configs.LLAMA3_8B), Serving(), H100)
    assert sparse.tpot_ms < dense.tpot_ms


def test_what_was_measured_goes_before_what_was_reckoned_but_for_the_cache():
    facts, serving = read_facts(configs.LLAMA3_8B), Serving(max_context_tokens=8192)
    estimate = estimate_memory(facts, serving)
    per_token = kv_bytes_per_token_on_gpu(facts.model, serving)
    full = Measured(gpu_count=1, memory_bytes=72 * GIB, kv_tokens=400_000)
    measured = corrected(estimate, full, per_token)
    assert measured.total_bytes == 72 * GIB - 400_000 * 128 * 1024 + estimate.kv_bytes
    assert measured.estimated_bytes == estimate.estimated_bytes
    assert measured.kv_tokens_on(72 * GIB, per_token) == 400_000


def test_a_measurement_that_cannot_be_of_this_engine_corrects_nothing():
    estimate = estimate_memory(read_facts(configs.LLAMA3_8B), Serving())
    assert corrected(estimate, Measured(gpu_count=1, memory_bytes=72 * GIB), 1.0) == estimate
    assert corrected(estimate, Measured(gpu_count=1, memory_bytes=2 * GIB, kv_tokens=0), 1.0) == estimate

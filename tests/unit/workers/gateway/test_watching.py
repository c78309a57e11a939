import pytest

from workers.engines.interface import EngineReading
from workers.gateway.watching import read_metrics

pytestmark = pytest.mark.unit


def test_metrics_are_read_in_each_engines_words():
    vllm = (
        '# HELP x\nvllm:num_requests_running{a="b"} 2.0\nvllm:kv_cache_usage_perc{} 0.25\n'
        "vllm:iteration_tokens_total_count{} 9\n"
        'vllm:cache_config_info{x_block_size="1",block_size="16",num_gpu_blocks="10"} 1.0\n'
    )
    assert read_metrics("vllm", vllm) == EngineReading(
        running_requests=2, kv_used_ratio=0.25, steps_total=9, block_tokens=16, kv_capacity_tokens=160
    )
    assert read_metrics("llamacpp", "llamacpp:requests_processing 3\n") == EngineReading(running_requests=3)
    assert read_metrics("vllm", "nonsense") == EngineReading()

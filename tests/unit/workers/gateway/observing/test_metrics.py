import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.factories.usage import make_record
from workers.contracts.telemetry import GatewayReport
from workers.gateway.observing.exposition import render
from workers.gateway.observing.metrics import MAX_SERIES, RequestMetrics
from workers.gateway.sisters.overview import families_of_processes

pytestmark = pytest.mark.unit

REPORT = GatewayReport(gateway_id="g1", boot_id="b1", active_generation=7, queued_by_class={"gold": 2})
PAGE = Path(__file__).parents[5] / "docs/metrics.md"


def observed(*changes: dict[str, Any]) -> RequestMetrics:
    metrics = RequestMetrics()
    for one in changes or ({},):
        metrics.observe(structs.replace(record(), **one))
    return metrics


def record():
    return make_record(
        public_model="demo-chat",
        service_class="gold",
        path="/v1/chat/completions",
        status=200,
        outcome="completed",
        usage_source="engine",
        input_tokens=34,
        cached_input_tokens=16,
        output_tokens=9,
        reasoning_tokens=4,
        queue_ms=5.0,
        ttft_ms=200.0,
        total_ms=1000.0,
    )


def samples(metrics: RequestMetrics) -> dict[str, float]:
    lines = [line for line in render(REPORT, metrics).splitlines() if not line.startswith("#")]
    found = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
    assert len(found) == len(lines), "each sample once"
    return found


LABELS = 'model="demo-chat",service_class="gold",path="/v1/chat/completions"'
GEN_AI = (
    'gen_ai_operation_name="chat",gen_ai_provider_name="tokenyard",gen_ai_request_model="demo-chat",'
    'service_class="gold",path="/v1/chat/completions"'
)


def test_requests_are_counted_by_model_class_path_outcome_and_status():
    found = samples(observed({}, {}, {"outcome": "failed", "status": 502}))
    assert found[f'tokenyard_gateway_requests_total{{{LABELS},outcome="completed",status="2xx"}}'] == 2
    assert found[f'tokenyard_gateway_requests_total{{{LABELS},outcome="failed",status="5xx"}}'] == 1


def test_tokens_are_summed_by_kind():
    found = samples(observed({}, {}))
    for kind, count in {"input": 68, "cached_input": 32, "output": 18, "reasoning": 8}.items():
        assert found[f'tokenyard_gateway_tokens_total{{{LABELS},kind="{kind}"}}'] == count


def test_times_are_in_seconds_under_opentelemetrys_names():
    found = samples(observed())
    assert found[f"gen_ai_server_request_duration_seconds_sum{{{GEN_AI}}}"] == 1.0
    assert found[f"gen_ai_server_time_to_first_token_seconds_sum{{{GEN_AI}}}"] == 0.2
    assert found[f"gen_ai_server_time_per_output_token_seconds_sum{{{GEN_AI}}}"] == pytest.approx(0.1)
    assert found[f'gen_ai_server_time_to_first_token_seconds_bucket{{{GEN_AI},le="0.1"}}'] == 0
    assert found[f'gen_ai_server_time_to_first_token_seconds_bucket{{{GEN_AI},le="0.25"}}'] == 1


def test_a_board_for_vllm_finds_its_names_by_model():
    metrics = observed({}, {"service_class": "batch"})
    metrics.in_flight = {"demo-chat": (3, 2), "idle": (0, 0)}
    metrics.kv_used = {"demo-chat": 0.25}
    metrics.kv_blocks = {"demo-chat": {16: 80}}
    found = samples(metrics)
    assert found['vllm:kv_cache_usage_perc{model_name="demo-chat"}'] == 0.25
    assert found['vllm:gpu_cache_usage_perc{model_name="demo-chat"}'] == 0.25
    assert found['vllm:cache_config_info{model_name="demo-chat",block_size="16",num_gpu_blocks="80"}'] == 1
    assert not any("kv_cache_usage" in name for name in samples(observed()))
    assert found['vllm:num_requests_running{model_name="demo-chat"}'] == 3
    assert found['vllm:num_requests_waiting{model_name="demo-chat"}'] == 2
    assert found['vllm:num_requests_running{model_name="idle"}'] == 0
    assert found['vllm:e2e_request_latency_seconds_count{model_name="demo-chat"}'] == 2
    assert found['vllm:prompt_tokens_total{model_name="demo-chat"}'] == 68


def test_each_panel_of_vllms_own_board_has_values():
    found = samples(observed({}, {"outcome": "client_left", "queue_ms": None}, {"outcome": "refused", "ttft_ms": None}))
    of_model = 'model_name="demo-chat"'
    for reason, count in {"stop": 1, "abort": 1, "error": 0}.items():
        assert found[f'vllm:request_success_total{{{of_model},finished_reason="{reason}"}}'] == count
    assert found[f"vllm:request_prefill_time_seconds_sum{{{of_model}}}"] == pytest.approx(0.195 + 0.2)
    assert found[f"vllm:request_decode_time_seconds_sum{{{of_model}}}"] == pytest.approx(1.6)
    assert found[f"vllm:request_decode_time_seconds_count{{{of_model}}}"] == 2
    assert found[f"vllm:inter_token_latency_seconds_count{{{of_model}}}"] == 2
    assert found[f"vllm:prefix_cache_queries_total{{{of_model}}}"] == 102
    assert found[f"vllm:prefix_cache_hits_total{{{of_model}}}"] == 48


def test_what_is_unknown_is_not_counted_as_zero():
    found = samples(observed({"queue_ms": None, "ttft_ms": None, "usage_source": "none", "outcome": "refused"}))
    assert found[f"tokenyard_gateway_queue_time_seconds_count{{{LABELS}}}"] == 0
    assert found[f"gen_ai_server_time_to_first_token_seconds_count{{{GEN_AI}}}"] == 0
    assert found[f'gen_ai_client_token_usage_count{{{GEN_AI},gen_ai_token_type="input"}}'] == 0


def test_estimates_are_told_apart():
    assert samples(observed({}, {"usage_source": "estimated"}))[f"tokenyard_gateway_estimated_total{{{LABELS}}}"] == 1


def test_a_request_for_no_known_model_has_a_label_all_the_same():
    found = samples(observed({"public_model": "", "outcome": "rejected", "status": 404}))
    assert any('model="unknown"' in name and 'status="4xx"' in name for name in found)


def test_series_are_bounded():
    metrics = RequestMetrics()
    for number in range(MAX_SERIES + 50):
        metrics.observe(structs.replace(record(), public_model=f"m{number}"))
    assert len(metrics.series) == MAX_SERIES + 1
    assert metrics.series["other", "other", "/v1/chat/completions"].duration_ms.counts[7] == 50


def test_a_label_cannot_break_out_of_its_quotes():
    text = render(REPORT, observed({"public_model": 'a"b\\c\nd'}))
    assert r'model="a\"b\\c\nd"' in text


def test_errors_without_a_record_are_counted_by_code():
    metrics = RequestMetrics()
    metrics.count_unrecorded("invalid_api_key")
    metrics.count_unrecorded("invalid_api_key")
    assert samples(metrics)['tokenyard_gateway_unrecorded_errors_total{code="invalid_api_key"}'] == 2


@pytest.mark.parametrize(("total_ms", "slot"), [(0.0, 0), (10.0, 0), (10.1, 1), (81_920.0, 13), (81_921.0, 14)])
def test_a_bucket_includes_its_bound(total_ms, slot):
    [series] = observed({"total_ms": total_ms}).series.values()
    assert series.duration_ms.counts.index(1) == slot


def test_buckets_are_cumulative_and_end_with_the_count():
    text = render(REPORT, observed(*[{"total_ms": 10.0**power} for power in range(7)]))
    name = f"gen_ai_server_request_duration_seconds_bucket{{{GEN_AI}"
    counts = [int(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name)]
    assert all(a <= b for a, b in pairwise(counts))
    assert counts[-1] == 7


def test_each_family_is_declared_once_before_its_samples():
    declared: list[str] = []
    for line in render(REPORT, observed()).splitlines():
        if line.startswith("# TYPE "):
            declared.append(line.split()[2])
        elif not line.startswith("#"):
            assert re.split(r"[{ ]", line)[0].startswith(declared[-1])
    assert len(declared) == len(set(declared))


def test_the_page_lists_each_name_and_no_other():
    metrics = observed()
    metrics.kv_events.endpoints["exact"] = 1
    metrics.kv_used = {"demo-chat": 0.5}
    metrics.kv_blocks = {"demo-chat": {16: 1}}
    metrics.sisters.is_one_of_several = True
    sent = set(re.findall(r"^# TYPE (\S+)", render(REPORT, metrics), re.MULTILINE))
    optional = {"tokenyard_gateway_ttft_ms_p50", "tokenyard_gateway_ttft_ms_p95"}
    listed = set(re.findall(r"^\| `([\w:]+)` \|", PAGE.read_text(), re.MULTILINE))
    of_several = set(families_of_processes([]))
    assert listed == sent | optional | of_several

"""Launch plans, trial requests and metrics of each engine's adapter."""

from pathlib import Path

import msgspec
import pytest

from tests.support.specs import replica_spec
from workers.contracts.cache import find_cache
from workers.contracts.desired import ReplicaPart
from workers.engines.environments.locate import MARKER, environment_path
from workers.engines.environments.recipes import LLAMACPP, SMOLLM2_GGUF, VLLM_CPU, VLLM_GPU
from workers.engines.interface import EngineNotInstalledError, SpecRefusedError
from workers.engines.registry import build_adapters, choose_engine, get_adapter
from workers.engines.site import Site

pytestmark = pytest.mark.unit

DATA = Path(__file__).parents[3] / "data"


def site(tmp_path, gpu_count=0):
    return Site(cache=tmp_path, gpu_count=gpu_count, python="/usr/bin/python")


def adapter(name, tmp_path, gpu_count=0):
    return build_adapters(site(tmp_path, gpu_count))[name]


def installed(recipe, tmp_path):
    environment = environment_path(recipe, tmp_path)
    model = environment / "lib" / "python3.11" / "site-packages" / SMOLLM2_GGUF
    model.parent.mkdir(parents=True)
    model.touch()
    (environment / MARKER).touch()
    return environment


def option(plan, name):
    return plan.argv[plan.argv.index(name) + 1]


def test_a_fake_engine_is_started_by_our_own_python_on_the_ports_and_names_of_the_spec(tmp_path):
    spec = replica_spec(engine="fake", port=9007, served_name="m", max_running_requests=12, max_context_tokens=512)
    plan = adapter("fake", tmp_path).plan(spec)
    assert plan.argv[:3] == ["/usr/bin/python", "-m", "workers.engines.fake"]
    assert (option(plan, "--port"), option(plan, "--served-model-name")) == ("9007", "m")
    assert (option(plan, "--max-num-seqs"), option(plan, "--max-model-len")) == ("12", "512")
    assert plan.max_running_requests == 12


def test_a_fake_engine_takes_its_profile_from_the_source_and_its_options_from_the_arguments(tmp_path):
    spec = replica_spec(engine="fake", source="llama3-8b/l4/tp1", engine_args={"time_scale": 0.5, "load_time_s": 9.0})
    plan = adapter("fake", tmp_path).plan(spec)
    assert (option(plan, "--profile"), option(plan, "--time-scale")) == ("llama3-8b/l4/tp1", "0.5")
    assert plan.start_timeout_s > 9


@pytest.mark.parametrize("engine", ["fake", "llamacpp", "vllm"])
def test_an_option_the_engine_does_not_have_is_refused_by_name(engine, tmp_path):
    installed(LLAMACPP, tmp_path), installed(VLLM_CPU, tmp_path)
    with pytest.raises(SpecRefusedError, match="speed"):
        adapter(engine, tmp_path).plan(replica_spec(engine=engine, engine_args={"speed": "ludicrous"}))


@pytest.mark.parametrize("engine", ["llamacpp", "vllm"])
def test_a_missing_environment_is_named_with_the_command_that_makes_it(engine, tmp_path):
    with pytest.raises(EngineNotInstalledError, match=f"environments install {engine}"):
        adapter(engine, tmp_path).plan(replica_spec(engine=engine))


def test_llama_cpp_takes_no_more_at_once_than_it_has_slots(tmp_path):
    environment = installed(LLAMACPP, tmp_path)
    spec = replica_spec(engine="llamacpp", source="smollm2-135m-instruct", max_running_requests=64)
    plan = adapter("llamacpp", tmp_path).plan(spec)
    assert plan.argv[0] == str(environment / "bin" / "python")
    assert option(plan, "--model").endswith(".gguf")
    assert (plan.max_running_requests, option(plan, "--slots")) == (8, "8")


def test_llama_cpp_embeds_when_that_is_the_task(tmp_path):
    installed(LLAMACPP, tmp_path)
    spec = replica_spec(engine="llamacpp", source="smollm2-135m-instruct", task="embed")
    assert "--embed" in adapter("llamacpp", tmp_path).plan(spec).argv


@pytest.mark.parametrize(("engine", "most"), [("fake", 24), ("llamacpp", 24)])
def test_requests_for_an_engine_that_embeds_are_gathered_where_its_settings_say_so(engine, most, tmp_path):
    installed(LLAMACPP, tmp_path)
    source = "smollm2-135m-instruct"
    batching = {"max_requests": 24, "window_ms": 5}
    spec = replica_spec(
        engine=engine, task="embed", source=source, max_running_requests=24, engine_args={"batching": batching}
    )
    plan = adapter(engine, tmp_path).plan(spec)
    assert (plan.max_running_requests, plan.shape.batching.max_requests, plan.shape.batching.window_ms) == (most, 24, 5)
    assert "--batching" not in plan.argv
    plain = adapter(engine, tmp_path).plan(msgspec.structs.replace(spec, engine_args={}))
    assert plain.shape.batching is None


@pytest.mark.parametrize("batching", [{"max_requests": 0}, {"window_ms": -1}, {"size": 3}, "yes"])
def test_unsound_batching_is_refused(batching, tmp_path):
    with pytest.raises(SpecRefusedError, match="batching"):
        adapter("fake", tmp_path).plan(replica_spec(engine="fake", task="embed", engine_args={"batching": batching}))


def test_llama_cpp_refuses_a_source_that_is_not_there(tmp_path):
    installed(LLAMACPP, tmp_path)
    with pytest.raises(SpecRefusedError, match="GGUF"):
        adapter("llamacpp", tmp_path).plan(replica_spec(engine="llamacpp", source="/no/such.gguf"))


def test_vllm_on_a_cpu_runs_offline_in_float32_from_the_converted_model(tmp_path):
    environment = installed(VLLM_CPU, tmp_path)
    plan = adapter("vllm", tmp_path).plan(replica_spec(engine="vllm", source="smollm2-135m-instruct"))
    assert option(plan, "--model") == str(environment / "models" / "smollm2-135m-instruct")
    assert option(plan, "--dtype") == "float32"
    assert plan.env["HF_HUB_OFFLINE"] == "1"
    assert plan.env["VLLM_MEDIA_URL_ALLOW_REDIRECTS"] == "0"


def test_vllm_on_gpus_uses_no_more_of_them_than_there_are(tmp_path):
    installed(VLLM_GPU, tmp_path)
    two = adapter("vllm", tmp_path, gpu_count=2)
    plan = two.plan(replica_spec(engine="vllm", source="org/model", engine_args={"tensor_parallel_size": 2}))
    assert (option(plan, "--model"), option(plan, "--tensor-parallel-size")) == ("org/model", "2")
    with pytest.raises(SpecRefusedError, match="2 GPUs"):
        two.plan(replica_spec(engine="vllm", engine_args={"tensor_parallel_size": 4}))


def test_vllm_sees_the_gpus_it_was_given_and_takes_its_share_of_them(tmp_path):
    installed(VLLM_GPU, tmp_path)
    spec = replica_spec(engine="vllm", accelerators=["2", "3"], memory_share=0.25, revision="abc", dtype="bfloat16")
    plan = adapter("vllm", tmp_path, gpu_count=4).plan(spec)
    assert plan.env["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert option(plan, "--tensor-parallel-size") == "2"
    assert option(plan, "--gpu-memory-utilization") == "0.25"
    assert (option(plan, "--revision"), option(plan, "--dtype")) == ("abc", "bfloat16")


def test_vllm_divides_its_gpus_into_stages(tmp_path):
    installed(VLLM_GPU, tmp_path)
    four = adapter("vllm", tmp_path, gpu_count=4)
    stages = {"pipeline_parallel_size": 2}
    plan = four.plan(replica_spec(engine="vllm", accelerators=["0", "1", "2", "3"], engine_args=stages))
    assert (option(plan, "--tensor-parallel-size"), option(plan, "--pipeline-parallel-size")) == ("2", "2")
    with pytest.raises(SpecRefusedError, match="not 2 stages"):
        four.plan(replica_spec(engine="vllm", accelerators=["0", "1", "2"], engine_args=stages))


def part(rank, **facts):
    where = {"host": f"10.0.0.{rank + 1}", "master_host": "10.0.0.1", "master_port": 20_007, "stages": 4}
    return ReplicaPart(rank=rank, count=2, run=3, **(where | facts))


def test_vllms_parts_meet_at_the_leader_s_port_and_divide_the_whole_into_stages(tmp_path):
    installed(VLLM_GPU, tmp_path)
    for rank in (0, 1):
        gpus = ["0", "1", "2", "3"]
        spec = replica_spec(engine="vllm", source="org/model", accelerators=gpus, part=part(rank))
        plan = adapter("vllm", tmp_path, gpu_count=4).plan(spec)
        assert (option(plan, "--nnodes"), option(plan, "--node-rank")) == ("2", str(rank))
        assert (option(plan, "--master-addr"), option(plan, "--master-port")) == ("10.0.0.1", "20007")
        sizes = (option(plan, "--pipeline-parallel-size"), option(plan, "--tensor-parallel-size"))
        assert sizes == ("4", "2")
        assert plan.env["VLLM_HOST_IP"] == f"10.0.0.{rank + 1}"
        assert ("--headless" in plan.argv, "serve" in plan.argv) == (rank == 1, rank == 1)
        assert plan.shape.kv_events is None


def test_a_fake_engine_s_parts_know_their_run(tmp_path):
    leader = adapter("fake", tmp_path).plan(replica_spec(engine="fake", part=part(0)))
    follower = adapter("fake", tmp_path).plan(replica_spec(engine="fake", part=part(1)))
    assert (option(leader, "--run"), option(follower, "--node-rank")) == ("3", "1")
    assert ("--headless" in leader.argv, "--headless" in follower.argv) == (False, True)


def test_vllm_loads_adapters_by_name(tmp_path):
    installed(VLLM_CPU, tmp_path)
    plan = adapter("vllm", tmp_path).plan(replica_spec(engine="vllm", lora_adapters={"tone": "a/tone"}))
    assert option(plan, "--lora-modules") == "tone=a/tone"


def test_vllm_pools_when_the_task_is_to_embed(tmp_path):
    installed(VLLM_CPU, tmp_path)
    plan = adapter("vllm", tmp_path).plan(replica_spec(engine="vllm", source="all-minilm-l6-v2", task="embed"))
    assert option(plan, "--runner") == "pooling"


def test_vllms_metrics_are_read_as_recorded_under_load(tmp_path):
    text = (DATA / "vllm" / "metrics_under_load.txt").read_text()
    for name in ("vllm", "fake"):
        reading = adapter(name, tmp_path).read_metrics(text)
        assert (reading.running_requests, reading.waiting_requests) == (4, 4)
        assert reading.kv_used_ratio == pytest.approx(0.0221, abs=0.0001)
        assert (reading.prompt_tokens_total, reading.generated_tokens_total) == (2883, 1522)


def test_llama_cpps_metrics_are_read_as_recorded_and_what_it_does_not_say_is_unknown(tmp_path):
    reading = adapter("llamacpp", tmp_path).read_metrics((DATA / "llamacpp_metrics.txt").read_text())
    assert (reading.running_requests, reading.waiting_requests) == (0, 0)
    assert (reading.prompt_tokens_total, reading.generated_tokens_total) == (37, 12)
    assert reading.kv_used_ratio is None


@pytest.mark.parametrize("engine", ["fake", "llamacpp", "vllm"])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage {{{",
        "vllm:num_requests_running NaN\nllamacpp:requests_processing\n",
        "vllm:prompt_tokens_total 1e300\nllamacpp:prompt_tokens_total 1e300\n",  # what fits no message to anybody
        'llamacpp:n_decode_total 1e308\nllamacpp:n_decode_total{a="b"} 1e308\n',
        'vllm:generation_tokens_total{a="b"} 1e308\nvllm:generation_tokens_total{a="c"} 1e308\n',
    ],
)
def test_metrics_that_say_nothing_read_as_unknown(engine, text, tmp_path):
    reading = adapter(engine, tmp_path).read_metrics(text)
    assert set(msgspec.to_builtins(reading).values()) == {None}


def test_a_share_without_labels_is_one_engines(tmp_path):
    reading = adapter("vllm", tmp_path).read_metrics("vllm:kv_cache_usage_perc 0.5\n")
    assert reading.kv_used_ratio == 0.5


@pytest.mark.parametrize(
    ("status", "body", "passes"),
    [
        (200, b'{"choices":[{"text":" world"}]}', True),
        (200, b'{"choices":[]}', False),
        (200, b"not json", False),
        (200, b'{"error":{}}', False),
        (503, b'{"choices":[{"text":" world"}]}', False),
    ],
)
def test_only_a_real_completion_passes(status, body, passes, tmp_path):
    assert adapter("fake", tmp_path).has_passed(replica_spec(), status, body) is passes


def test_an_embedding_engine_is_tried_with_an_embedding(tmp_path):
    spec = replica_spec(task="embed", served_name="e")
    trial = adapter("fake", tmp_path).trial(spec)
    assert (trial.path, msgspec.json.decode(trial.body)["model"]) == ("/v1/embeddings", "e")
    assert adapter("fake", tmp_path).has_passed(spec, 200, b'{"data":[{"embedding":[0.5]}]}')
    assert not adapter("fake", tmp_path).has_passed(spec, 200, b'{"data":[{"embedding":[]}]}')


def test_an_unknown_engine_is_refused_with_those_there_are(tmp_path):
    with pytest.raises(SpecRefusedError, match="vllm, llamacpp, fake"):
        get_adapter(build_adapters(site(tmp_path)), "steam")


@pytest.mark.parametrize(
    ("wanted", "gpu_count", "chosen"),
    [("auto", 0, "llamacpp"), ("auto", 1, "vllm"), ("vllm", 0, "vllm"), ("fake", 4, "fake")],
)
def test_auto_takes_vllm_where_there_is_a_gpu_and_llama_cpp_elsewhere(wanted, gpu_count, chosen):
    assert choose_engine(wanted, gpu_count) == chosen


def test_an_engine_nobody_knows_is_refused():
    with pytest.raises(SpecRefusedError, match="steam"):
        choose_engine("steam", 0)


def test_an_environment_made_from_another_lock_or_python_is_another_one():
    assert LLAMACPP.key("3.11") != LLAMACPP.key("3.12")
    assert LLAMACPP.key("3.11") != msgspec.structs.replace(LLAMACPP, locks=("base.lock",)).key("3.11")


def test_the_cache_is_where_the_environment_says():
    assert find_cache({"TOKENYARD_CACHE": "/c"}) == Path("/c")
    assert find_cache({"XDG_CACHE_HOME": "/x"}) == Path("/x/tokenyard")
    assert find_cache({}) == Path("~/.cache/tokenyard").expanduser()

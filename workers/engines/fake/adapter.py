"""Starts fake engines."""

from workers.contracts.desired import ReplicaPart, ReplicaSpec
from workers.contracts.endpoints import EngineShape, KVEvents
from workers.contracts.engine_args import FakeSettings
from workers.engines.costs import load_profiles
from workers.engines.fake.options import DEFAULT_BATCHED_TOKENS, DEFAULT_BLOCK_TOKENS, DEFAULT_PROFILE
from workers.engines.interface import MIB, EngineReading, LaunchPlan, SpecRefusedError, TrialRequest, WeightsSource
from workers.engines.kv_sockets import events_config, kv_events_of
from workers.engines.settings import read_settings
from workers.engines.site import Site
from workers.engines.trial import is_real_answer, trial_request
from workers.engines.vllm.metrics import read_vllm_metrics

_PROCESS_START_S = 30.0


class FakeAdapter:
    """`source` is a step-time profile such as llama3-8b/h100/tp1; any other name stands for the default one."""

    name = "fake"
    reports_continuous_usage = True
    health_path = "/health"
    metrics_path = "/metrics"

    def __init__(self, site: Site) -> None:
        self._site = site

    def is_available(self) -> bool:
        return True

    def plan(self, spec: ReplicaSpec) -> LaunchPlan:
        if spec.task not in ("generate", "embed"):
            raise SpecRefusedError(f"the fake engine does not do {spec.task!r}")
        settings = read_settings(spec, FakeSettings)
        publishes = settings.kv_events and spec.task == "generate"
        events = kv_events_of(self._site, spec.replica_id) if publishes else None
        argv = [self._site.python, "-m", "workers.engines.fake", *_server_arguments(spec)]
        return LaunchPlan(
            argv=[
                *argv,
                *_settings_arguments(settings),
                *_part_arguments(spec.part),
                *(["--kv-events-config", events_config(events)] if events else []),
            ],
            max_running_requests=spec.max_running_requests,
            start_timeout_s=_PROCESS_START_S + settings.load_time_s,
            stop_grace_s=3.0,
            memory_bytes=128 * MIB,
            shape=_shape_of(spec, settings, events),
            can_sleep=bool(settings.enable_sleep_mode),
        )

    def weights(self, spec: ReplicaSpec) -> WeightsSource | None:
        repository = read_settings(spec, FakeSettings).weights_repository
        return WeightsSource(repository=repository, revision=spec.revision) if repository else None

    def trial(self, spec: ReplicaSpec) -> TrialRequest:
        return trial_request(spec)

    def has_passed(self, spec: ReplicaSpec, status: int, body: bytes) -> bool:
        return is_real_answer(spec, status, body)

    def read_metrics(self, text: str) -> EngineReading:
        return read_vllm_metrics(text)


def _profile_of(spec: ReplicaSpec) -> str:
    return spec.source if spec.source in load_profiles() else DEFAULT_PROFILE


def _shape_of(spec: ReplicaSpec, settings: FakeSettings, events: KVEvents | None) -> EngineShape:
    blocks = settings.num_gpu_blocks_override
    kv_capacity_tokens = load_profiles()[_profile_of(spec)].kv_capacity_tokens
    return EngineShape(
        cost_profile=_profile_of(spec),
        time_scale=settings.time_scale,
        max_batched_tokens=settings.max_num_batched_tokens or DEFAULT_BATCHED_TOKENS,
        max_sequences=spec.max_running_requests,
        kv_capacity_tokens=blocks * DEFAULT_BLOCK_TOKENS if blocks else kv_capacity_tokens,
        block_tokens=DEFAULT_BLOCK_TOKENS,
        has_priorities=True,
        batching=settings.batching,
        kv_events=events,
    )


def _server_arguments(spec: ReplicaSpec) -> list[str]:
    profile = _profile_of(spec)
    arguments = ["--port", str(spec.port), "--served-model-name", spec.served_name, "--task", spec.task]
    arguments += ["--profile", profile, "--max-num-seqs", str(spec.max_running_requests)]
    if spec.max_context_tokens:
        arguments += ["--max-model-len", str(spec.max_context_tokens)]
    return arguments


def _part_arguments(part: ReplicaPart | None) -> list[str]:
    if part is None:
        return []
    arguments = ["--nnodes", str(part.count), "--node-rank", str(part.rank), "--run", str(part.run)]
    arguments += ["--master-addr", part.master_host, "--master-port", str(part.master_port)]
    return arguments if part.leads else [*arguments, "--headless"]


def _settings_arguments(settings: FakeSettings) -> list[str]:
    arguments: list[str] = []
    for name in settings.__struct_fields__:
        if name in ("batching", "kv_events", "weights_repository"):
            continue
        value = getattr(settings, name)
        option = f"--{name.replace('_', '-')}"
        if value is True:
            arguments.append(option)
        elif value is not None:
            arguments += [option, str(value)]
    return arguments

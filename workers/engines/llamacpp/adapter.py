"""Starts llama.cpp, by serve.py, from its environment."""

from pathlib import Path

from workers.contracts.desired import ReplicaSpec
from workers.contracts.endpoints import EngineShape
from workers.contracts.engine_args import LlamaCppSettings
from workers.engines.environments.locate import (
    environment_path,
    is_complete,
    package_file,
    python_of,
    require_environment,
)
from workers.engines.environments.recipes import LLAMACPP, SMOLLM2_GGUF
from workers.engines.interface import MIB, EngineReading, LaunchPlan, SpecRefusedError, TrialRequest, WeightsSource
from workers.engines.llamacpp.metrics import read_llamacpp_metrics
from workers.engines.settings import read_settings
from workers.engines.site import Site
from workers.engines.trial import is_real_answer, trial_request

_SERVE = Path(__file__).with_name("serve.py")
_DEFAULT_CONTEXT_TOKENS = 2048
# Each slot has its own context in memory, and on a CPU more at once only makes each slower.
_MAX_SLOTS = 8
# A batch of a long prompt takes a CPU a while.
_STALL_S = 15.0
_BASE_MEMORY_BYTES = 400 * MIB
_KV_BYTES_PER_TOKEN = 46_080

_SMOLLM2 = "smollm2-135m-instruct"
# What its authors recommend; at the library's 0.8 so small a model rambles.
_SMOLLM2_SAMPLING = ["--temperature", "0.2", "--top-p", "0.9"]


class LlamaCppAdapter:
    """`source` is smollm2-135m-instruct, which the environment brings, or the path of a GGUF file."""

    name = "llamacpp"
    reports_continuous_usage = False
    health_path = "/health"
    metrics_path = "/metrics"

    def __init__(self, site: Site) -> None:
        self._cache = site.cache

    def is_available(self) -> bool:
        return is_complete(environment_path(LLAMACPP, self._cache))

    def plan(self, spec: ReplicaSpec) -> LaunchPlan:
        settings = read_settings(spec, LlamaCppSettings)
        environment = require_environment(LLAMACPP, self._cache)
        slots = min(settings.slots or _MAX_SLOTS, spec.max_running_requests)
        batching = settings.batching if spec.task == "embed" else None
        context_tokens = spec.max_context_tokens or _DEFAULT_CONTEXT_TOKENS
        # -P keeps this directory out of the engine's import path.
        argv = [str(python_of(environment)), "-P", str(_SERVE), "--model", str(_model_file(spec, environment))]
        argv += ["--alias", spec.served_name, "--port", str(spec.port), "--slots", str(slots)]
        argv += ["--context-tokens", str(context_tokens), "--threads", str(settings.threads)]
        argv += _SMOLLM2_SAMPLING if spec.source == _SMOLLM2 else []
        return LaunchPlan(
            argv=[*argv, "--embed"] if spec.task == "embed" else argv,
            max_running_requests=slots if batching is None else spec.max_running_requests,
            start_timeout_s=180.0,
            stop_grace_s=3.0,
            stall_s=_STALL_S,
            memory_bytes=_BASE_MEMORY_BYTES + slots * context_tokens * _KV_BYTES_PER_TOKEN,
            shape=EngineShape(max_sequences=slots, kv_capacity_tokens=slots * context_tokens, batching=batching),
        )

    def weights(self, spec: ReplicaSpec) -> WeightsSource | None:  # noqa: ARG002 - its files are the node's own
        return None

    def trial(self, spec: ReplicaSpec) -> TrialRequest:
        return trial_request(spec)

    def has_passed(self, spec: ReplicaSpec, status: int, body: bytes) -> bool:
        return is_real_answer(spec, status, body)

    def read_metrics(self, text: str) -> EngineReading:
        return read_llamacpp_metrics(text)


def _model_file(spec: ReplicaSpec, environment: Path) -> Path:
    if spec.source == _SMOLLM2:
        return package_file(environment, SMOLLM2_GGUF)
    path = Path(spec.source)
    if path.suffix != ".gguf" or not path.is_file():
        raise SpecRefusedError(f"source {spec.source!r} is neither {_SMOLLM2} nor a GGUF file on this node")
    return path

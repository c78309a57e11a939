"""Command line of the fake engine: vLLM's names where vLLM has the option."""

import argparse
from typing import Any

import msgspec

from workers.engines.costs import load_profiles
from workers.engines.fake.engine import EngineOptions
from workers.engines.fake.faults import Faults
from workers.engines.fake.kv_events import KVEventsConfig
from workers.engines.fake.model.continuous_batching import BatchLimits
from workers.engines.fake.served import Served

DEFAULT_PROFILE = "llama3-8b/h100/tp1"
DEFAULT_BATCHED_TOKENS = 8192
DEFAULT_BLOCK_TOKENS = 16


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m workers.engines.fake",
        description="A model of a vLLM engine behind vLLM's HTTP API: real timing, made-up text, no GPU.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    _add_server(parser.add_argument_group("server"))
    _add_engine(parser.add_argument_group("engine"))
    _add_parts(parser.add_argument_group("an engine on several nodes"))
    _add_timing(parser.add_argument_group("timing"))
    _add_faults(parser.add_argument_group("faults, also settable by POST /fake/faults"))
    return parser


def engine_options(arguments: argparse.Namespace) -> EngineOptions:
    """Raises ValueError for a combination that cannot work."""
    profiles = load_profiles()
    if arguments.profile not in profiles:
        raise ValueError(f"no profile {arguments.profile}; there are: {', '.join(sorted(profiles))}")
    cost = profiles[arguments.profile]
    kv_blocks = arguments.num_gpu_blocks_override or cost.kv_capacity_tokens // arguments.block_size
    if kv_blocks * arguments.block_size < arguments.max_model_len:
        raise ValueError(f"{kv_blocks} KV blocks do not hold one request of --max-model-len {arguments.max_model_len}")
    return EngineOptions(
        served=Served(name=arguments.served_model_name, task=arguments.task, max_model_tokens=arguments.max_model_len),
        cost=cost.scaled(arguments.time_scale),
        limits=BatchLimits(
            max_sequences=arguments.max_num_seqs,
            max_batched_tokens=arguments.max_num_batched_tokens,
            block_size_tokens=arguments.block_size,
        ),
        kv_blocks=kv_blocks,
        is_caching=arguments.enable_prefix_caching,
        can_sleep=arguments.enable_sleep_mode,
        is_priority_scheduling=arguments.scheduling_policy == "priority",
        max_queued_requests=arguments.max_num_queued_reqs,
        mean_output_tokens=arguments.mean_output_tokens,
        embedding_dimensions=arguments.embedding_dimensions,
        history=arguments.history,
        kv_events=arguments.kv_events_config,
    )


def initial_faults(arguments: argparse.Namespace) -> Faults:
    return Faults(
        is_hanging=arguments.hang,
        health_delay_s=arguments.health_delay_s,
        crash_after_tokens=arguments.crash_after_tokens,
        crash_mode=arguments.crash_mode,
        reset_after_tokens=arguments.reset_after_tokens,
        error_rate=arguments.error_rate,
        metrics_are_stale=arguments.stale_metrics,
        queue_full_in_stream=arguments.queue_full_in_stream,
    )


def _kv_events(text: str) -> KVEventsConfig | None:
    """Raises ValueError, of which the parser makes its own."""
    config = msgspec.json.decode(text, type=KVEventsConfig)
    return config if config.enable_kv_cache_events else None


def _add_server(group: Any) -> None:
    group.add_argument("--host", default="127.0.0.1", help="address to listen on")
    group.add_argument("--port", type=int, default=8000, help="port to listen on")
    group.add_argument("--served-model-name", default="fake-model", help="the model name it answers to")
    group.add_argument("--task", choices=["generate", "embed"], default="generate", help="which paths it serves")
    group.add_argument("--history", type=int, default=20_000, help="requests kept for GET /fake/requests")


def _add_engine(group: Any) -> None:
    group.add_argument("--max-model-len", type=int, default=8192, help="context length in tokens (words)")
    group.add_argument("--max-num-seqs", type=int, default=256, help="sequences in a step")
    group.add_argument(
        "--max-num-batched-tokens", type=int, default=DEFAULT_BATCHED_TOKENS, help="token budget of a step"
    )
    group.add_argument("--max-num-queued-reqs", type=int, default=None, help="beyond this many waiting: 503")
    group.add_argument("--block-size", type=int, default=DEFAULT_BLOCK_TOKENS, help="tokens in a KV block")
    group.add_argument("--num-gpu-blocks-override", type=int, default=None, help="KV blocks; else the profile's")
    group.add_argument("--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=True)
    group.add_argument("--kv-events-config", type=_kv_events, default=None, help="JSON, as vLLM takes it")
    group.add_argument("--scheduling-policy", choices=["fcfs", "priority"], default="priority")
    group.add_argument("--enable-sleep-mode", action="store_true", help="has /sleep, /wake_up and /is_sleeping")
    group.add_argument("--mean-output-tokens", type=int, default=128, help="where answers end by themselves")
    group.add_argument("--embedding-dimensions", type=int, default=384)


def _add_parts(group: Any) -> None:
    group.add_argument("--nnodes", type=int, default=1, help="parts that the engine has, one on each node")
    group.add_argument("--node-rank", type=int, default=0, help="which part this is; 0 leads")
    group.add_argument("--master-addr", default="127.0.0.1", help="where the leader waits for the others")
    group.add_argument("--master-port", type=int, default=29501)
    group.add_argument("--headless", action="store_true", help="a part that answers no requests")
    group.add_argument("--run", type=int, default=0, help="parts of another run are sent away")


def _add_timing(group: Any) -> None:
    group.add_argument("--profile", default=DEFAULT_PROFILE, help="model/gpu/tpN whose step times are used")
    group.add_argument("--time-scale", type=float, default=1.0, help="wall seconds per modelled second; 0.1 is fast")
    group.add_argument("--load-time-s", type=float, default=0.0, help="the port opens only after so long")


def _add_faults(group: Any) -> None:
    group.add_argument("--hang", action="store_true", help="take requests and never move on")
    group.add_argument("--health-delay-s", type=float, default=0.0)
    group.add_argument("--crash-after-tokens", type=int, default=None)
    group.add_argument("--crash-mode", choices=["exit", "engine_dead"], default="exit")
    group.add_argument("--reset-after-tokens", type=int, default=None)
    group.add_argument("--error-rate", type=float, default=0.0, help="share of requests answered 500")
    group.add_argument("--stale-metrics", action="store_true")
    group.add_argument("--queue-full-in-stream", action="store_true")

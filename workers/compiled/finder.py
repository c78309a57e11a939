"""Imports compiled modules in the place of their sources."""

import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from workers.compiled.selection import build_directory

SWITCH = "TOKENYARD_COMPILED"
MARKER = ".complete"


class CompiledFinder(MetaPathFinder):
    """Knows the modules of one build by their names."""

    def __init__(self, directory: Path) -> None:
        self._files = {_name_of(path, directory): path for path in directory.rglob(f"*{EXTENSION_SUFFIXES[0]}")}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        file = self._files.get(fullname)
        if file is None:
            return None
        return spec_from_file_location(fullname, file, loader=ExtensionFileLoader(fullname, str(file)))


def prefer_compiled(cache: Path, environ: Mapping[str, str]) -> bool:
    """Whether this process runs compiled from now on. Must come before the modules are imported.

    TOKENYARD_COMPILED=off keeps everything interpreted.
    """
    if environ.get(SWITCH, "").lower() in ("off", "0", "no", "false"):
        return False
    directory = build_directory(cache)
    if not (directory / MARKER).exists():
        return False
    sys.meta_path.insert(0, CompiledFinder(directory))
    return True


def _name_of(path: Path, directory: Path) -> str:
    relative = path.relative_to(directory)
    return ".".join([*relative.parent.parts, relative.name.removesuffix(EXTENSION_SUFFIXES[0])])

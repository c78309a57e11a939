"""Where an engine's environment is. It exists once its marker does, which is written last."""

import sys
from pathlib import Path

from workers.engines.environments.recipes import Recipe
from workers.engines.interface import EngineNotInstalledError

MARKER = "complete"


def environment_path(recipe: Recipe, cache: Path) -> Path:
    key = recipe.key(f"{sys.version_info.major}.{sys.version_info.minor}")
    return cache / "engines" / f"{recipe.name}-{key}"


def is_complete(environment: Path) -> bool:
    return (environment / MARKER).is_file()


def require_environment(recipe: Recipe, cache: Path) -> Path:
    """Raises EngineNotInstalledError with the command to run."""
    environment = environment_path(recipe, cache)
    if not is_complete(environment):
        engine = recipe.name.partition("-")[0]
        command = f"python -m workers.engines.environments install {engine}"
        raise EngineNotInstalledError(f"{recipe.title} is not installed; run: {command}")
    return environment


def python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def package_file(environment: Path, name: str) -> Path:
    """A file that a wheel brought; `name` is relative to site-packages."""
    return next(environment.glob(f"lib/python3*/site-packages/{name}"), environment / name)

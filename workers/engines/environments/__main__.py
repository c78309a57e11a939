"""`python -m workers.engines.environments install|path llamacpp|vllm`. The path goes to stdout, all else to stderr."""

import argparse
import os
import sys

from workers.engines.environments.install import InstallFailedError, install
from workers.engines.environments.locate import environment_path
from workers.engines.environments.recipes import recipe_for
from workers.engines.registry import AUTO, ENGINE_NAMES, choose_engine
from workers.engines.site import Site, find_site


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m workers.engines.environments", description=__doc__)
    parser.add_argument("action", choices=["install", "path"])
    parser.add_argument("engine", choices=[AUTO, *ENGINE_NAMES], help="fake needs no environment")
    arguments = parser.parse_args()
    return run(arguments.action, arguments.engine, find_site(os.environ))


def run(action: str, wanted: str, site: Site) -> int:
    recipe = recipe_for(choose_engine(wanted, site.gpu_count), has_gpu=site.gpu_count > 0)
    if recipe is None:
        announce(f"{wanted} needs no environment")
        return 0
    try:
        path = install(recipe, site.cache, announce) if action == "install" else environment_path(recipe, site.cache)
    except InstallFailedError as error:
        announce(str(error))
        return 1
    print(path)  # noqa: T201 the answer of a command
    return 0


def announce(message: str) -> None:
    print(message, file=sys.stderr, flush=True)  # noqa: T201 progress for a person


if __name__ == "__main__":
    sys.exit(main())

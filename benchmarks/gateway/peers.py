"""Other gateways, from the package registry into environments of their own in the user's cache."""

import os
import subprocess
import sys
import venv
from pathlib import Path

INSTALL_TIMEOUT_S = 600


def cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tokenyard" / "benchmarks"


def program(requirement: str, name: str) -> Path:
    """The installed program `name` of a requirement like `package==1.2`; installs it when it is not there."""
    directory = cache_directory() / requirement.replace("==", "-")
    found = directory / "bin" / name
    if not found.exists():
        print(f"installing {requirement}", file=sys.stderr)
        venv.create(directory, with_pip=True)
        command: list[str | Path] = [directory / "bin" / "python", "-m", "pip", "install", "-qq", requirement]
        subprocess.run(command, check=True, timeout=INSTALL_TIMEOUT_S)
    return found


def built(source: Path) -> Path:
    """A C program beside this file, compiled anew when it has changed."""
    target = cache_directory() / source.stem
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", "-O2", "-Wall", "-o", target, source], check=True, timeout=60)  # noqa: S607 - any gcc
    return target

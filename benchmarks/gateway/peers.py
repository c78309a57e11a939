"""Other gateways, from the package registries into directories of their own in the cache; nothing is installed."""

import os
import re
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from pathlib import Path

INSTALL_TIMEOUT_S = 900


@dataclass(frozen=True)
class Program:
    """`environment` is what it needs to find its own libraries."""

    path: Path
    environment: dict[str, str] = field(default_factory=dict)


def cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tokenyard" / "benchmarks"


def python_program(name: str, *requirements: str) -> Path:
    """The program `name` of an environment with these requirements, which is made when it is not there."""
    directory = cache_directory() / re.sub(r"[^\w.]+", "-", requirements[0])
    found = directory / "bin" / name
    if not found.exists():
        print(f"installing {' '.join(requirements)}", file=sys.stderr)
        venv.create(directory, with_pip=True)
        command: list[str | Path] = [directory / "bin" / "python", "-m", "pip", "install", "-qq", *requirements]
        subprocess.run(command, check=True, timeout=INSTALL_TIMEOUT_S)
    return found


def debian_program(name: str) -> Program:
    """The system's, or else that of Debian's package of the same name: unpacked, with the libraries it is missing."""
    if (installed := shutil.which(name)) is not None:
        return Program(Path(installed))
    directory = cache_directory() / f"debian-{name}"
    if not (directory / "complete").exists():
        _unpack(name, directory)
    libraries = ":".join(str(path) for path in sorted((directory / "root/usr/lib").glob("*-linux-gnu")))
    return Program(directory / "root/usr/sbin" / name, {"LD_LIBRARY_PATH": libraries} if libraries else {})


def _unpack(name: str, directory: Path) -> None:
    print(f"downloading {name}", file=sys.stderr)
    archives = directory / "archives"
    (archives / "partial").mkdir(parents=True, exist_ok=True)
    options = ["-y", "-qq", "--no-install-recommends", "--download-only", "-o", f"Dir::Cache::archives={archives}"]
    download = ["apt-get", "install", *options, name]
    if subprocess.run(download, check=False, timeout=INSTALL_TIMEOUT_S).returncode:
        subprocess.run(["apt-get", "update", "-qq"], check=True, timeout=INSTALL_TIMEOUT_S)  # noqa: S607 - any apt
        subprocess.run(download, check=True, timeout=INSTALL_TIMEOUT_S)
    for archive in sorted(archives.glob("*.deb")):
        unpack = ["dpkg-deb", "-x", str(archive), str(directory / "root")]
        subprocess.run(unpack, check=True, timeout=60)
    (directory / "complete").touch()


def built(source: Path) -> Path:
    """A C program beside this file, compiled anew when it has changed."""
    target = cache_directory() / source.stem
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", "-O2", "-Wall", "-o", target, source], check=True, timeout=60)  # noqa: S607 - any gcc
    return target

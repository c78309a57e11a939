"""Makes .venv and installs a lock into it when that lock has changed: `bootstrap.py base|dev`.

Runs before anything is installed, so it imports the standard library only.
"""

import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
INTERPRETER = VENV / "bin" / "python"
_SHOWN_EVERY = 10
_SIZES = {"base": "46 MB, a minute or so", "dev": "142 MB, a few minutes"}
_PINNED = re.compile(r"^[A-Za-z0-9][^\s=]*==", re.MULTILINE)


class BootstrapError(RuntimeError):
    """The environment cannot be made; the message says what to do."""


def main(name: str) -> int:
    lock = ROOT / "requirements" / f"{name}.lock"
    try:
        with lock.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # a second `make` waits here
            make_environment()
            install(name, lock)
            link_command()
    except BootstrapError as error:
        print(f"✗ {error}", file=sys.stderr)
        return 1
    return 0


def make_environment() -> None:
    if _is_usable():
        return
    print(f"Making {VENV} with Python {sys.version.split()[0]} …", flush=True)
    shutil.rmtree(VENV, ignore_errors=True)
    made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=False, capture_output=True, text=True)
    if made.returncode != 0:
        shutil.rmtree(VENV, ignore_errors=True)
        said = (made.stdout + made.stderr).strip()
        raise BootstrapError(f"{sys.executable} -m venv failed (on Debian, install python3-venv):\n{said}")


def install(name: str, lock: Path) -> None:
    stamp = VENV / f".installed-{name}"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return
    total = len(_PINNED.findall(lock.read_text()))
    print(f"Installing {total} locked packages ({_SIZES[name]}) …", flush=True)
    began = time.monotonic()
    _install_lock(lock, total)
    stamp.write_text(digest)
    print(f"Installed in {time.monotonic() - began:.0f} s.", flush=True)


def link_command() -> None:
    """`.venv/bin/tokenyard`, from any directory."""
    command = VENV / "bin" / "tokenyard"
    text = f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{INTERPRETER}" -m workers.cli "$@"\n'
    if not command.exists() or command.read_text() != text:
        command.write_text(text)
        command.chmod(0o755)


def _is_usable() -> bool:
    """A virtual environment breaks when the Python it was made with is upgraded away."""
    if not INTERPRETER.exists():
        return False
    probe = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    return subprocess.run([str(INTERPRETER), "-c", probe], check=False, capture_output=True).returncode == 0


def _install_lock(lock: Path, total: int) -> None:
    command = [str(INTERPRETER), "-m", "pip", "install", "--require-hashes", "--prefer-binary", "-r", str(lock)]
    command += ["--disable-pip-version-check", "--no-input", "--progress-bar=off", "--retries=5", "--timeout=60"]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        said = _show_progress(pip, total)
    if pip.returncode != 0:
        raise BootstrapError(f"pip could not install {lock.name}:\n" + "".join(said[-15:]))


def _show_progress(pip: "subprocess.Popen[str]", total: int) -> list[str]:
    said, done = [], 0
    for line in pip.stdout or ():
        said.append(line)
        if line.startswith("Collecting "):
            done += 1
            _show_count(done, total, line.split()[1].split("==")[0])
        if line.startswith("Installing collected"):
            print("\n  unpacking …" if sys.stdout.isatty() else "  unpacking …", flush=True)
    return said


def _show_count(done: int, total: int, package: str) -> None:
    if sys.stdout.isatty():
        print(f"\r  {done}/{total} {package:<40}", end="", flush=True)
    elif done % _SHOWN_EVERY == 0:
        print(f"  {done}/{total}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

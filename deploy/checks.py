"""`make check`: every static check, all of them also when one fails, and what to do at the end."""

import os
import subprocess
import sys
import time
from pathlib import Path

_BIN = Path(sys.executable).parent
_CHECKS: dict[str, list[str]] = {
    "ruff check": [str(_BIN / "ruff"), "check", "."],
    "ruff format": [str(_BIN / "ruff"), "format", "--check", "."],
    "mypy": [str(_BIN / "mypy"), "."],
    "imports": [str(_BIN / "lint-imports"), "--no-logo"],
    "templates": [str(_BIN / "djlint"), "templates", "--lint", "--check", "--quiet"],
    "django": [sys.executable, "manage.py", "check"],
    # Without a database it cannot compare with what was applied, and warns; the models it can compare.
    "migrations": [
        sys.executable,
        "-W",
        "ignore::RuntimeWarning",
        "manage.py",
        "makemigrations",
        "--check",
        "--dry-run",
    ],
    "architecture": [sys.executable, "-m", "pytest", "-q", "tests/unit/test_architecture.py"],
}
_ENVIRONMENT = {"DJANGO_SETTINGS_MODULE": "controlplane.settings.test"}


def main() -> int:
    failed = [name for name, command in _CHECKS.items() if not _passes(name, command)]
    if failed:
        print(f"✗ make check: {', '.join(failed)} failed (`make format` repairs what a tool can)", file=sys.stderr)
    return 1 if failed else 0


def _passes(name: str, command: list[str]) -> bool:
    began = time.monotonic()
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, env=os.environ | _ENVIRONMENT)
    mark = "✓" if done.returncode == 0 else "✗"
    print(f"{mark} {name:<12} {time.monotonic() - began:6.1f} s", flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())

"""`make test`: two halves beside each other, because most tests wait for processes and leave the processor idle."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

# What starts processes of its own, and takes about as long as all the rest.
_WITH_PROCESSES = (
    "tests/integration/agent",
    "tests/integration/deploy",
    "tests/integration/gateway",
    "tests/integration/stack",
    "tests/replay",
    "tests/model",
    "tests/e2e",
)
_REST = ["tests/unit", "tests/integration", *(f"--ignore={path}" for path in _WITH_PROCESSES)]


def main() -> int:
    with TemporaryFile() as told_later:
        beside = _start([path for path in _WITH_PROCESSES if Path(path).exists()], told_later)
        try:
            rest = _start(_REST, None).wait()
            beside.wait()
        finally:
            beside.terminate()
        told_later.seek(0)
        sys.stdout.buffer.write(told_later.read())
        sys.stdout.flush()
    return rest or beside.returncode


def _start(arguments: list[str], output: IO[bytes] | None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pytest", *arguments, "--durations=10"]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT if output else None
    )


if __name__ == "__main__":
    sys.exit(main())

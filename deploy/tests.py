"""`make test`: three parts beside each other, because most tests wait for processes and leave the processor idle."""

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

# Most of what starts processes of its own; it takes about as long as all that is in no other part.
_WITH_PROCESSES = (
    "tests/integration/deploy",
    "tests/integration/gateway",
    "tests/integration/stack",
    "tests/replay",
    "tests/model",
    "tests/e2e",
)
# Wait for engines to hang, to drain and to be given up.
_OF_AGENTS = ("tests/integration/agent",)
_REST = ["tests/unit", "tests/integration", *(f"--ignore={path}" for path in (*_WITH_PROCESSES, *_OF_AGENTS))]


# More than this many is a defect and not a machine that was too busy.
_TRIED_AGAIN_AT_MOST = 5
_SOME_FAILED = 1


def main() -> int:
    with TemporaryDirectory() as failures, ExitStack() as files:
        beside = [
            Part("with-processes", _there(_WITH_PROCESSES), failures),
            Part("agents", _there(_OF_AGENTS), failures),
        ]
        told_later = [files.enter_context(TemporaryFile()) for _ in beside]
        running = [part.start(output) for part, output in zip(beside, told_later, strict=True)]
        the_rest = Part("rest", _REST, failures)
        codes = _ends_of(the_rest.start(None), running)
        for output in told_later:
            _tell(output)
        settled = [part.settled(code) for part, code in zip((the_rest, *beside), codes, strict=True)]
        return next((code for code in settled if code), 0)


def _there(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if Path(path).exists()]


def _ends_of(first: subprocess.Popen[bytes], others: Sequence[subprocess.Popen[bytes]]) -> list[int]:
    """Their exit codes; whoever interrupts the first ends the others with it."""
    try:
        return [each.wait() for each in (first, *others)]
    finally:
        for each in others:
            each.terminate()


def _tell(output: IO[bytes]) -> None:
    output.seek(0)
    sys.stdout.buffer.write(output.read())
    sys.stdout.flush()


class Part:
    """Some of the tests, run by one pytest. What failed while the others ran is tried once more alone (ADR 67)."""

    def __init__(self, name: str, arguments: list[str], failures: str) -> None:
        self._cache = Path(failures, name)
        self._command = [sys.executable, "-m", "pytest", *arguments, "-o", f"cache_dir={self._cache}"]

    def start(self, output: IO[bytes] | None, *more: str) -> subprocess.Popen[bytes]:
        command = [*self._command, "--durations=10", *more]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT if output else None
        )

    def settled(self, code: int) -> int:
        failed = self._failed()
        if code != _SOME_FAILED or not 0 < len(failed) <= _TRIED_AGAIN_AT_MOST:
            return code
        print("\n=== once more, alone, after failing beside the others:", *failed, sep="\n    ", flush=True)
        return self.start(None, "--last-failed", "--last-failed-no-failures=none").wait()

    def _failed(self) -> list[str]:
        noted = self._cache / "v" / "cache" / "lastfailed"
        return sorted(json.loads(noted.read_text())) if noted.exists() else []


if __name__ == "__main__":
    sys.exit(main())

"""`make test`: two halves beside each other, because most tests wait for processes and leave the processor idle."""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

# Most of what starts processes of its own; it takes about as long as all the rest.
_WITH_PROCESSES = (
    "tests/integration/deploy",
    "tests/integration/gateway",
    "tests/integration/stack",
    "tests/replay",
    "tests/model",
    "tests/e2e",
)
_REST = ["tests/unit", "tests/integration", *(f"--ignore={path}" for path in _WITH_PROCESSES)]


# More than this many is a defect and not a machine that was too busy.
_TRIED_AGAIN_AT_MOST = 5
_SOME_FAILED = 1


def main() -> int:
    with TemporaryDirectory() as failures, TemporaryFile() as told_later:
        with_processes = Half("with-processes", [path for path in _WITH_PROCESSES if Path(path).exists()], failures)
        the_rest = Half("rest", _REST, failures)
        beside = with_processes.start(told_later)
        try:
            rest_code = the_rest.start(None).wait()
            beside.wait()
        finally:
            beside.terminate()
        told_later.seek(0)
        sys.stdout.buffer.write(told_later.read())
        sys.stdout.flush()
        return the_rest.settled(rest_code) or with_processes.settled(beside.returncode)


class Half:
    """Some of the tests, run by one pytest. What failed while the other half ran is tried once more alone (ADR 67)."""

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
        print("\n=== once more, alone, after failing beside the other half:", *failed, sep="\n    ", flush=True)
        return self.start(None, "--last-failed", "--last-failed-no-failures=none").wait()

    def _failed(self) -> list[str]:
        noted = self._cache / "v" / "cache" / "lastfailed"
        return sorted(json.loads(noted.read_text())) if noted.exists() else []


if __name__ == "__main__":
    sys.exit(main())

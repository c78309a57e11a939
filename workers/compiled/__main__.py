"""`python -m workers.compiled`: builds the hot path, unless it is built. Without a compiler it says what that means."""

import os
import sys

from workers.compiled.build import BuildFailedError, build
from workers.contracts.cache import find_cache


def main() -> int:
    try:
        build(find_cache(os.environ), _say)
    except BuildFailedError as error:
        _say(f"The gateway will run interpreted, at about 1.5 times the CPU per request: {error}")
        return 1
    return 0


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())

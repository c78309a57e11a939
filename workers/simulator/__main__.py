"""`python -m workers.simulator`: compiled where it was built for these sources, and interpreted elsewhere."""

import os
import sys

from workers.compiled.finder import prefer_compiled
from workers.contracts.cache import find_cache


def main() -> int:
    prefer_compiled(find_cache(os.environ), os.environ)
    from workers.simulator import command  # noqa: PLC0415 - what is imported before stays interpreted

    return command.main()


if __name__ == "__main__":
    sys.exit(main())

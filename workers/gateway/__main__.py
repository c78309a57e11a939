"""`python -m workers.gateway`: compiled where it was built for these sources, and interpreted elsewhere."""

import os

from workers.compiled.finder import prefer_compiled
from workers.contracts.cache import find_cache


def main() -> None:
    is_compiled = prefer_compiled(find_cache(os.environ), os.environ)
    from workers.gateway import command  # noqa: PLC0415 - what is imported before stays interpreted

    command.main(is_compiled=is_compiled)


if __name__ == "__main__":
    main()

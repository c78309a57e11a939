from collections.abc import Collection

HIGHEST_PORT = 65535


def lowest_free_port(*, base: int, taken: Collection[int]) -> int | None:
    return next((port for port in range(base, HIGHEST_PORT + 1) if port not in taken), None)

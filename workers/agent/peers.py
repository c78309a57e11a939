"""Whether any other node answers, by opening a connection to its gateway."""

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit

_TIMEOUT_S = 2.0
_DEFAULT_PORTS = {"http": 80, "https": 443}


async def any_answers(urls: Sequence[str]) -> bool:
    answers = await asyncio.gather(*(_answers(url) for url in urls))
    return any(answers)


async def _answers(url: str) -> bool:
    parts = urlsplit(url)
    try:
        port = parts.port or _DEFAULT_PORTS[parts.scheme]
        async with asyncio.timeout(_TIMEOUT_S):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except (OSError, ValueError, KeyError):
        return False
    writer.close()
    return True

"""Whether any other node answers: its gateway, with any HTTP answer at all.

A connection alone says little: what stands in between may take it while nobody is behind. Over TLS it has to do, for
whose certificate that is, is not this question.
"""

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit

_TIMEOUT_S = 2.0
_DEFAULT_PORTS = {"http": 80, "https": 443}
_ANSWER = b"HTTP/"


async def any_answers(urls: Sequence[str]) -> bool:
    answers = await asyncio.gather(*(_answers(url) for url in urls))
    return any(answers)


async def _answers(url: str) -> bool:
    parts = urlsplit(url)
    try:
        port = parts.port or _DEFAULT_PORTS[parts.scheme]
        async with asyncio.timeout(_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(parts.hostname, port)
            try:
                return parts.scheme == "https" or await _speaks(reader, writer, parts.netloc)
            finally:
                writer.close()
    except (OSError, ValueError, KeyError, asyncio.IncompleteReadError):
        return False


async def _speaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> bool:
    writer.write(f"GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    return await reader.readexactly(len(_ANSWER)) == _ANSWER

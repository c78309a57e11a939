"""Bytes on a socket: what a client library would hide, a test of byte shapes must see."""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass
class RawResponse:
    """`chunks` are the payloads of a chunked body, one for each chunk; `body` is the body without the framing."""

    status_line: str
    headers: list[tuple[str, str]]
    body: bytes = b""
    chunks: list[bytes] = field(default_factory=list)

    @property
    def status(self) -> int:
        return int(self.status_line.split()[1])

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[Any]:
        """Decoded `data:` events; [DONE] stays a string."""
        lines = [line.removeprefix("data: ") for line in self.body.decode().split("\n") if line.startswith("data: ")]
        return [line if line == "[DONE]" else json.loads(line) for line in lines]


def parse_response(raw: bytes) -> RawResponse:
    head, _, body = raw.partition(b"\r\n\r\n")
    status_line, *lines = head.decode("latin-1").split("\r\n")
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    response = RawResponse(status_line, headers, body)
    if response.header("transfer-encoding") == "chunked":
        response.chunks = _split_chunks(body)
        response.body = b"".join(response.chunks)
    return response


def _split_chunks(body: bytes) -> list[bytes]:
    chunks = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            break
        chunks.append(rest[:length])
        body = rest[length + 2 :]
    return chunks


def request_bytes(method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> bytes:
    """`body` is sent as JSON; `Connection: close` unless `headers` say otherwise."""
    content = b"" if body is None else json.dumps(body).encode()
    lines = {"Host": "127.0.0.1", "Connection": "close", "Content-Length": str(len(content))}
    if body is not None:
        lines["Content-Type"] = "application/json"
    lines |= headers or {}
    head = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in lines.items())]
    return ("\r\n".join(head) + "\r\n\r\n").encode() + content


async def exchange(port: int, raw: bytes, timeout_s: float = 100) -> RawResponse:
    """Sends, and reads until the other side closes."""
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(raw)
            answer = await reader.read(-1)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    return parse_response(answer)


async def call(
    port: int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> RawResponse:
    return await exchange(port, request_bytes(method, path, body, headers))

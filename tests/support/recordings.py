"""Recorded exchanges with real engines: tests/data/vllm, from ../shared/data/vllm/samples."""

import re
from pathlib import Path

from msgspec import Struct

DIRECTORY = Path(__file__).parent.parent / "data" / "vllm"
_READ_MARK = re.compile(rb"\n?@[\d.]+ms \d+B\n")
_EVENT = re.compile(rb"^data: .*\n\n", re.MULTILINE)


class Recording(Struct):
    """An answer. `events` are those of a stream, each with its blank line; `body` is the answer without framing."""

    status: int
    headers: dict[str, str]
    body: bytes
    events: list[bytes]


def load(name: str) -> Recording:
    raw = (DIRECTORY / f"{name}.txt").read_bytes()
    response = raw.partition(b"##### RESPONSE")[2].partition(b"\n")[2]
    head, _, body = _READ_MARK.sub(b"", response).partition(b"\r\n\r\n")
    lines = head.decode().splitlines()
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
    events = _EVENT.findall(body)
    return Recording(int(lines[0].split()[1]), headers, b"".join(events) or body.strip(), events)

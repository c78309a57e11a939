"""Exchanges recorded from vLLM 0.32 (tests/data/vllm): the request, and the raw answer without its read marks."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.support.raw_http import RawResponse, parse_response

DIRECTORY = Path(__file__).parent.parent / "data" / "vllm"
_READ_MARK = re.compile(rb"@\d+\.\d+ms (\d+)B\n")


@dataclass
class Sample:
    request: bytes
    response: RawResponse


def load_sample(name: str) -> Sample:
    content = (DIRECTORY / f"{name}.txt").read_bytes()
    request, _, response = content.partition(b'##### RESPONSE (raw bytes; "@<ms>" lines mark each socket read)\n')
    return Sample(_trim_request(request.removeprefix(b"##### REQUEST\n")), parse_response(_join_reads(response)))


def _trim_request(request: bytes) -> bytes:
    head, _, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"Content-Length: (\d+)", head)
    return head + b"\r\n\r\n" + body[: int(length[1]) if length else 0]


def _join_reads(response: bytes) -> bytes:
    """Each read is a mark, as many bytes as it says, and a line feed."""
    reads = []
    while mark := _READ_MARK.match(response):
        end = mark.end() + int(mark[1])
        reads.append(response[mark.end() : end])
        response = response[end + 1 :]
    return b"".join(reads)

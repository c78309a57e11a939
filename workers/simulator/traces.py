"""Public request traces as they lie in files; their README says where each comes from."""

import csv
import gzip
import os
from collections.abc import Iterable
from io import TextIOWrapper
from math import isfinite
from pathlib import Path
from typing import IO, cast

import msgspec

TRACES_VARIABLE = "TOKENYARD_TRACES"
SESSION_BLOCK_TOKENS = 64
MOONCAKE_BLOCK_TOKENS = 512
GZIP_MAGIC = b"\x1f\x8b"


class TraceRequest(msgspec.Struct, frozen=True):
    """`hashes` number the prompt's leading blocks; equal numbers mean an equal prompt up to and including the block."""

    at_s: float
    prompt_tokens: int
    output_tokens: int
    hashes: tuple[int, ...] = ()


class TraceCall(msgspec.Struct, frozen=True):
    """`runs` are [first, length] of block numbers; `api_s` is how long the recorded service took."""

    t: float
    input: int = msgspec.field(name="in")
    out: int = 0
    api: float = 0.0
    h: list[tuple[int, int]] = []


class TraceSession(msgspec.Struct, frozen=True):
    id: str
    calls: list[TraceCall]


class _MooncakeLine(msgspec.Struct):
    t_s: float
    input: int = msgspec.field(name="in")
    out: int = 0
    h: list[int] = []


def default_folder() -> Path:
    """Beside the checkout, unless the environment says otherwise."""
    return Path(os.environ.get(TRACES_VARIABLE) or Path(__file__).parents[3] / "shared" / "data" / "traces")


def read_lengths(path: Path) -> list[TraceRequest]:
    """Traces of times and lengths alone."""
    with _open(path) as file:
        rows = csv.DictReader(TextIOWrapper(file, encoding="utf-8", newline=""))
        return _in_order(TraceRequest(float(row["t_s"]), int(row["in"]), max(1, int(row["out"]))) for row in rows)


def read_prefixes(path: Path) -> list[TraceRequest]:
    with _open(path) as lines:
        decoded = [msgspec.json.decode(line, type=_MooncakeLine) for line in lines]
    return _in_order(TraceRequest(line.t_s, line.input, max(1, line.out), tuple(line.h)) for line in decoded)


def read_sessions(path: Path) -> list[TraceSession]:
    with _open(path) as lines:
        return [msgspec.json.decode(line, type=TraceSession) for line in lines]


def later(trace: list[TraceRequest], begin: float) -> list[TraceRequest]:
    """Without so large a share of its start; its times begin at 0 again."""
    rest = trace[int(begin * len(trace)) :]
    if not begin or not rest:
        return rest
    return [msgspec.structs.replace(request, at_s=request.at_s - rest[0].at_s) for request in rest]


def _open(path: Path) -> IO[bytes]:
    """Gzipped or not, whatever its name says."""
    with path.open("rb") as file:
        is_gzipped = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    return cast("IO[bytes]", gzip.open(path, "rb")) if is_gzipped else path.open("rb")


def _in_order(requests: Iterable[TraceRequest]) -> list[TraceRequest]:
    found = sorted(requests, key=lambda request: request.at_s)
    if not all(isfinite(request.at_s) and request.prompt_tokens >= 0 for request in found):
        raise ValueError("times and lengths must be numbers, and no length below 0")
    return found

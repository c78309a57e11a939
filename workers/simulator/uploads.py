"""Traces that people bring along: how large they may be, and how they are kept."""

import gzip
import zlib

from workers.simulator.traces import GZIP_MAGIC

MAX_UPLOAD_BYTES = 8 * 1024 * 1024
MAX_UNPACKED_BYTES = 64 * 1024 * 1024
_GZIP = 16 + zlib.MAX_WBITS


def pack_upload(uploaded: bytes) -> bytes:
    """Gzipped, whatever it was; raises ValueError, with words for a person, for what is too large or damaged."""
    if len(uploaded) > MAX_UPLOAD_BYTES:
        raise ValueError(f"The file is larger than {MAX_UPLOAD_BYTES // 2**20} MiB; gzip it, or cut it.")
    if not uploaded.startswith(GZIP_MAGIC):
        return gzip.compress(uploaded, mtime=0)
    try:
        unpacked = zlib.decompressobj(_GZIP).decompress(uploaded, MAX_UNPACKED_BYTES + 1)
    except zlib.error as error:
        raise ValueError("The file is damaged: it cannot be unpacked.") from error
    if len(unpacked) > MAX_UNPACKED_BYTES:
        raise ValueError(f"Unpacked the file is larger than {MAX_UNPACKED_BYTES // 2**20} MiB.")
    return gzip.compress(unpacked, mtime=0)


def name_of_upload(packed: bytes) -> str:
    """By what is in it: JSON lines begin with an object, CSV with the names of its columns."""
    start = zlib.decompressobj(_GZIP).decompress(packed, 64).lstrip()
    return "recording.jsonl.gz" if start.startswith(b"{") else "recording.csv.gz"

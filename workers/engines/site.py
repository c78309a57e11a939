"""Where engines run: the node's accelerators and the user's cache directory."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pynvml
from msgspec import Struct

from workers.contracts.cache import find_cache


class Site(Struct, frozen=True, kw_only=True):
    """`cache` holds environments and models, shared by all clones of this user. `python` runs our own modules."""

    cache: Path
    gpu_count: int
    python: str


def find_site(environ: Mapping[str, str]) -> Site:
    return Site(cache=find_cache(environ), gpu_count=count_gpus(), python=sys.executable)


def count_gpus() -> int:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return 0
    try:
        return int(pynvml.nvmlDeviceGetCount())
    finally:
        pynvml.nvmlShutdown()

"""Where engines run: the node's accelerators and the user's cache directory."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pynvml
from msgspec import Struct

from workers.contracts.cache import find_cache


class Site(Struct, frozen=True, kw_only=True):
    """`cache` holds environments and models, shared by all clones of this user.

    `python` runs our own modules, `gpu_name` is that of the first GPU. In `sockets` engines of this node listen for
    its other processes; without it they do not.
    """

    cache: Path
    gpu_count: int
    python: str
    gpu_name: str = ""
    sockets: Path | None = None


def find_site(environ: Mapping[str, str]) -> Site:
    names = list_gpu_names()
    return Site(
        cache=find_cache(environ), gpu_count=len(names), python=sys.executable, gpu_name=names[0] if names else ""
    )


def list_gpu_names() -> list[str]:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return [str(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
    finally:
        pynvml.nvmlShutdown()

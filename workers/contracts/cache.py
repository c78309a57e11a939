"""Where a user's clones share what takes long to make: engines' environments, models, compiled modules."""

from collections.abc import Mapping
from pathlib import Path


def find_cache(environ: Mapping[str, str]) -> Path:
    """TOKENYARD_CACHE, or tokenyard under XDG_CACHE_HOME, or under ~/.cache."""
    chosen = environ.get("TOKENYARD_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "tokenyard"

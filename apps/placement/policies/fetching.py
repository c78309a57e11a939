"""Which weights agents bring to a node's disk before an engine starts; the engines' adapters decide alike."""

import re
from collections.abc import Mapping
from typing import Any

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


def fetched_key(engine: str, source: str, revision: str, engine_args: Mapping[str, Any]) -> str:
    """By what they are known on the disk; "" where the source is a path, or comes with the engine."""
    if source.startswith("s3://"):
        return f"{source}@{revision}"
    repository = engine_args.get("weights_repository") if engine == "fake" else source if engine == "vllm" else ""
    if not isinstance(repository, str) or not _REPOSITORY.fullmatch(repository):
        return ""
    return f"{repository}@{revision}" if revision else repository

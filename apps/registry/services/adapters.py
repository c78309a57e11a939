"""LoRA adapters of a version: pinned to what lies there when it is made, and small enough for what the engine takes."""

from collections.abc import Mapping
from typing import Any

from apps.common.errors import DomainError, InvalidInputError
from apps.registry.services.hub import fetch_adapter_config, is_repository
from apps.registry.services.stores import checked_source, stored_adapter_config
from workers.contracts.engine_args import most_lora_rank
from workers.contracts.stores import is_digest


def pinned_adapters(
    adapters: list[dict[str, Any]], *, engine_args: Mapping[str, Any], is_fetched: bool
) -> list[dict[str, Any]]:
    """Those of stores always, those of the hub when `is_fetched`; one that is given its digest or commit is not read.

    Raises InvalidInputError, which names the adapter, and what reading from a hub or a store raises.
    """
    names = [each["name"] for each in adapters]
    if len(set(names)) < len(names):
        raise _refused("two adapters have one name, which is what requests ask for")
    return [_pinned(each, most_lora_rank(engine_args), is_fetched=is_fetched) for each in adapters]


def _pinned(adapter: dict[str, Any], most_rank: int, *, is_fetched: bool) -> dict[str, Any]:
    try:
        revision, config = _read(adapter, is_fetched=is_fetched)
    except DomainError as error:
        error.fields = {"lora_adapters": f"{adapter['name']}: {error}"}
        raise
    if problem := _problem_of(config, most_rank):
        raise _refused(f"{adapter['name']}: {problem}")
    return {name: value for name, value in adapter.items() if value} | ({"revision": revision} if revision else {})


def _read(adapter: Mapping[str, Any], *, is_fetched: bool) -> tuple[str, Mapping[str, Any] | None]:
    """Its commit or digest, and its adapter_config.json; None where nobody looked."""
    source, revision = adapter["source"], adapter.get("revision") or ""
    stored = checked_source(source)
    if stored is not None and revision:
        if not is_digest(revision):
            raise _refused("of an object store the revision is the digest of what lies there: leave it out")
        return revision, None
    if stored is not None:
        return stored_adapter_config(stored)
    if is_fetched and is_repository(source):
        return fetch_adapter_config(source=source, revision=revision)
    return revision, None


def _problem_of(config: Mapping[str, Any] | None, most_rank: int) -> str:
    if config is None:
        return ""
    kind, rank = config.get("peft_type"), config.get("r")
    if kind != "LORA":
        return f"its adapter_config.json says that it is {kind or 'nothing'}, and not LORA"
    if isinstance(rank, int) and rank > most_rank:
        return f"its rank is {rank}, and the engine takes {most_rank}: give engine_args.extra --max-lora-rank"
    return ""


def _refused(text: str) -> InvalidInputError:
    return InvalidInputError(text, fields={"lora_adapters": text})

"""What an object store holds: the model's own config.json, the size of its weights, and the digest that pins them.

Where buckets are is the installation's choice (TOKENYARD_STORES), never the request's.
"""

import json
import os
from collections.abc import Callable
from typing import Any, TypeVar

from apps.common.errors import DomainError, InvalidInputError, NotFoundError
from apps.registry.policies.weights import total_of_index
from apps.registry.selectors import store_of
from apps.registry.services.facts import Facts
from workers.contracts.store_client import NotInStoreError, ObjectStore, Patience, StoreError, StoreRefusedError
from workers.contracts.stores import ObjectSource, SourceError, StoredObject, digest_of, parse_source, weight_bytes_of

_PATIENCE = Patience(connect_s=3.0, answer_s=8.0, retries=1, retry_s=8.0)
_BIGGEST_FILE_BYTES = 32 * 2**20
_INDEX = "model.safetensors.index.json"
_ADAPTER = "adapter_config.json"
Answer = TypeVar("Answer")


class StoreUnavailableError(DomainError):
    """The store is away, or says something that it should not."""

    code = "store_unavailable"
    status = 424


def checked_source(source: str) -> ObjectSource | None:
    """None for a path or a repository. Raises InvalidInputError for a store that nobody can read."""
    try:
        found = parse_source(source)
    except SourceError as error:
        raise InvalidInputError(str(error), fields={"source": str(error)}) from error
    if found is not None and store_of(source) is None:
        text = f"no object store is set up for the bucket {found.bucket} (TOKENYARD_STORES)"
        raise InvalidInputError(text, fields={"source": text})
    return found


def stored_facts(source: ObjectSource) -> Facts:
    """Raises NotFoundError, InvalidInputError where we may not read, and StoreUnavailableError."""
    return _asked(source, _read)


def stored_adapter_config(source: ObjectSource) -> tuple[str, dict[str, Any]]:
    """The digest of what lies there, and its adapter_config.json. Raises as `stored_facts`."""
    return _asked(source, _read_adapter)


def _asked(source: ObjectSource, read: Callable[[ObjectSource], Answer]) -> Answer:
    try:
        return read(source)
    except NotInStoreError as error:
        raise NotFoundError(str(error), fields={"source": "is not in the store"}) from error
    except StoreRefusedError as error:
        text = f"{error}; web and controller read with their own AWS_… or credentials file"
        raise InvalidInputError(text, fields={"source": str(error)}) from error
    except StoreError as error:
        text = f"{error}; or give revision (the digest), config and weight_bytes yourself"
        raise StoreUnavailableError(text, fields={"source": str(error)}) from error


def _read(source: ObjectSource) -> Facts:
    store = _store_with(source)
    objects = store.list_objects(source)
    digest = digest_of(objects)
    return Facts(
        source=str(source),
        revision=digest,
        commit=digest,
        config=_json_of(store, objects, "config.json"),
        weight_bytes=total_of_index(_json_of(store, objects, _INDEX)) or weight_bytes_of(objects),
        licence="",
        tags=[],
    )


def _read_adapter(source: ObjectSource) -> tuple[str, dict[str, Any]]:
    store = _store_with(source)
    objects = store.list_objects(source)
    if not any(each.name == _ADAPTER for each in objects):
        raise NotInStoreError(f"{source} has no {_ADAPTER}, as an adapter has")
    return digest_of(objects), _json_of(store, objects, _ADAPTER)


def _store_with(source: ObjectSource) -> ObjectStore:
    address = store_of(str(source))
    if address is None:
        raise NotInStoreError(f"no object store is set up for the bucket {source.bucket}")
    return ObjectStore(address, source.bucket, os.environ, _PATIENCE)


def _json_of(store: ObjectStore, objects: list[StoredObject], name: str) -> dict[str, Any]:
    """{} where there is none: a file of llama.cpp's has its config inside."""
    found = next((each for each in objects if each.name == name), None)
    if found is None:
        return {}
    if found.size > _BIGGEST_FILE_BYTES:
        raise StoreError(f"{found.key} is too big to be a {name}")
    try:
        content = json.loads(store.read(found, 0, found.size))
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{found.key} is no JSON") from error
    if not isinstance(content, dict):
        raise StoreError(f"{found.key} is no object")
    return content

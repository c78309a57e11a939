"""What `GET /v1/models` says: the public models that a key may use, each as vLLM lists its own."""

import msgspec

from workers.contracts.snapshot import Route
from workers.gateway import errors
from workers.gateway.snapshots.directory import Directory, Grant


def models_body(directory: Directory, grant: Grant, name: str) -> bytes:
    """All of them, or the one of that name. Raises GatewayError where there is none."""
    routes = directory.list_routes(grant)
    if not name:
        return msgspec.json.encode({"object": "list", "data": [_card(directory, route) for route in routes]})
    for route in routes:
        if route.public_name == name:
            return msgspec.json.encode(_card(directory, route))
    raise errors.model_not_found(name)


def _card(directory: Directory, route: Route) -> dict[str, str | int]:
    card: dict[str, str | int] = {
        "id": route.public_name,
        "object": "model",
        "created": route.created_at,
        "owned_by": "tokenyard",
    }
    longest = _most_context_tokens(directory, route)
    return card if longest is None else card | {"max_model_len": longest}


def _most_context_tokens(directory: Directory, route: Route) -> int | None:
    """What every version takes that may be chosen; None where that is not known of each."""
    chosen = [target.version_id for target in route.targets if target.weight > 0]
    known = [
        directory.versions[version_id].max_context_tokens for version_id in chosen if version_id in directory.versions
    ]
    sure = [tokens for tokens in known if tokens is not None]
    return min(sure) if sure and len(sure) == len(known) else None

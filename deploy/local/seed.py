"""What `manage.py seed_demo --json FILE` leaves for us: the node's credentials, and what people are shown."""

from pathlib import Path
from typing import Any

import msgspec


class SeededTenant(msgspec.Struct, frozen=True, kw_only=True):
    api_key: str


class Seed(msgspec.Struct, frozen=True, kw_only=True):
    """`model` is the public chat model; further fields go into demo.json as they are."""

    node_id: str
    agent_token: str
    model: str
    logins: list[dict[str, Any]]
    tenants: dict[str, SeededTenant]
    embedding_model: str = ""


def read_seed(path: Path) -> Seed:
    return msgspec.json.decode(path.read_bytes(), type=Seed)

"""What `manage.py seed_demo --json FILE` leaves for us: the node's credentials, and what people are shown.

`python -m deploy.local.seed environment|show FILE` serves the containers, which have no supervisor.
"""

import sys
from pathlib import Path
from typing import Any

import msgspec


class SeededTenant(msgspec.Struct, frozen=True, kw_only=True):
    api_key: str


class Seed(msgspec.Struct, frozen=True, kw_only=True):
    """`model` is the public chat model; a login has username, password and role."""

    node_id: str
    agent_token: str
    model: str
    logins: list[dict[str, Any]]
    tenants: dict[str, SeededTenant]
    embedding_model: str = ""


def read_seed(path: Path) -> Seed:
    return msgspec.json.decode(path.read_bytes(), type=Seed)


def environment(seed: Seed) -> dict[str, str]:
    """What makes an agent and a gateway those of the seeded node."""
    return {"TOKENYARD_NODE_ID": seed.node_id, "TOKENYARD_AGENT_TOKEN": seed.agent_token}


def show(seed: Seed) -> str:
    logins = [f"login {login['username']} {login['password']}" for login in seed.logins]
    keys = [f"key {name} {tenant.api_key}" for name, tenant in seed.tenants.items()]
    return "\n".join([*logins, *keys, f"model {seed.model}"])


if __name__ == "__main__":
    asked, file = sys.argv[1:]
    found = read_seed(Path(file))
    print(show(found) if asked == "show" else " ".join(f"{name}={value}" for name, value in environment(found).items()))

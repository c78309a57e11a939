"""`python -m workers.agent.join --join TOKEN@URL --directory DIR`: makes this machine a node, and is its agent.

The token is good for one node. What it was exchanged for is kept in DIR/agent.json, so that the same line starts the
same node again.
"""

import argparse
import json
import os
import platform
import re
import socket
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from workers.agent.__main__ import main as run_agent
from workers.agent.gateway_keeper import GatewayPlace
from workers.contracts import layout
from workers.contracts.layout import write_whole

KEPT = "agent.json"
_TIMEOUT_S = 15
# More than what is kept takes.
_KEPT_BYTES = 4096
_PRIVATE = 0o700


class JoinError(Exception):
    """The message says what to do."""


class Joined(Struct, frozen=True, kw_only=True):
    node_id: str
    agent_token: str
    web_url: str


def join(text: str, directory: Path, *, name: str, gateway_url: str) -> Joined:
    """What was kept, or what the token is exchanged for now. Raises JoinError, and then the token is still good.

    A node that was removed joins as another one, by another token.
    """
    kept, mark = directory / KEPT, directory / layout.REMOVED_FILE
    _prepare(kept)
    if not kept.exists():
        return _join_anew(text, kept, name=name, gateway_url=gateway_url)
    joined = msgspec.json.decode(kept.read_bytes(), type=Joined)
    if not mark.exists():
        return joined
    try:
        joined = _join_anew(text, kept, name=name, gateway_url=gateway_url)
    except JoinError as error:
        print(f"this node was removed, and not joined again: {error}", file=sys.stderr)  # noqa: T201 - for who typed it
        return joined
    mark.unlink(missing_ok=True)
    return joined


def _join_anew(text: str, kept: Path, *, name: str, gateway_url: str) -> Joined:
    token, _, web_url = text.partition("@")
    if not web_url.startswith(("http://", "https://")):
        raise JoinError("--join should be TOKEN@URL, as the console prints it")
    answer = _exchange(web_url.rstrip("/"), {"token": token, "name": name, "gateway_url": gateway_url})
    joined = Joined(node_id=answer["node_id"], agent_token=answer["agent_token"], web_url=web_url.rstrip("/"))
    write_whole(kept, msgspec.json.encode(joined))
    return joined


def _prepare(kept: Path) -> None:
    """A token is good once: it is not spent where what it is exchanged for could not be kept."""
    trial = kept.with_name(f".{kept.name}.trial")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
        if not kept.exists():
            write_whole(trial, b" " * _KEPT_BYTES)
    except OSError as error:
        raise JoinError(f"{kept.parent} cannot be written to, so nothing was asked for: {error}") from error
    finally:
        with suppress(OSError):
            trial.unlink()


def environment_of(
    joined: Joined, directory: Path, *, gateway_url: str, gateway: GatewayPlace | None
) -> dict[str, str]:
    """`gateway` is where the agent keeps one running."""
    return _environment_of_gateway(gateway) | {
        "TOKENYARD_CONTROL_URL": f"{joined.web_url.replace('http', 'ws', 1)}/ws/agent/",
        "TOKENYARD_NODE_ID": joined.node_id,
        "TOKENYARD_AGENT_TOKEN": joined.agent_token,
        "TOKENYARD_NODE_DIR": str(directory),
        "TOKENYARD_GATEWAY_URL": gateway_url,
    }


def _environment_of_gateway(gateway: GatewayPlace | None) -> dict[str, str]:
    if gateway is None:
        return {}
    ports = {"TOKENYARD_GATEWAY_PORT": gateway.port, "TOKENYARD_GATEWAY_ADMIN_PORT": gateway.admin_port}
    return {"TOKENYARD_AGENT_GATEWAY_HOST": gateway.host} | {name: str(port) for name, port in ports.items()}


def _exchange(web_url: str, body: dict[str, str]) -> dict[str, str]:
    request = urllib.request.Request(  # noqa: S310 - the scheme was looked at
        f"{web_url}/api/v1/join/", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - likewise
            return dict(json.load(answer))
    except urllib.error.HTTPError as error:
        raise JoinError(f"the control plane refused: {_detail_of(error.read())}") from error
    except (OSError, ValueError) as error:
        raise JoinError(f"{web_url} cannot be reached: {error}") from error


def _detail_of(body: bytes) -> str:
    try:
        problem = json.loads(body)
        return "; ".join([problem["detail"], *(f"{name}: {text}" for name, text in problem["fields"].items())])
    except (ValueError, KeyError, TypeError, AttributeError):
        return body[:200].decode(errors="replace")


def _own_address(web_url: str) -> str:
    """By which the control plane's network knows this machine: that of the way there. Nothing is sent."""
    parts = urlsplit(web_url)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((parts.hostname or "127.0.0.1", parts.port or 80))
        return str(way.getsockname()[0])


def _gateway_place(chosen: argparse.Namespace) -> GatewayPlace | None:
    if chosen.no_gateway:
        return None
    try:
        host = chosen.gateway_host or _own_address(chosen.join.partition("@")[2])
    except OSError as error:
        raise JoinError(f"this machine's address is not to be had, so --gateway-host is needed: {error}") from error
    return GatewayPlace(host=host, port=chosen.gateway_port, admin_port=chosen.gateway_port + 1)


def _name_of_machine() -> str:
    return re.sub(r"[^a-z0-9-]+", "-", platform.node().lower()).strip("-")[:63] or "node"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m workers.agent.join", description=__doc__)
    parser.add_argument("--join", required=True, help="TOKEN@URL, as the console prints it")
    parser.add_argument("--directory", type=Path, required=True, help="where the node keeps what it must know")
    parser.add_argument("--name", default=_name_of_machine(), help="the node's name in the fleet")
    parser.add_argument("--gateway-url", default="", help="where clients and other nodes reach this node's gateway")
    parser.add_argument(
        "--gateway-host", default="", help="where the gateway listens (default: this machine's address)"
    )
    parser.add_argument("--gateway-port", type=int, default=8080, help="the next port is for its metrics")
    parser.add_argument("--no-gateway", action="store_true", help="somebody else runs it")
    chosen = parser.parse_args()
    directory = chosen.directory.absolute()
    try:
        gateway = _gateway_place(chosen)
        gateway_url = chosen.gateway_url or (f"http://{gateway.host}:{gateway.port}" if gateway else "")
        joined = join(chosen.join, directory, name=chosen.name, gateway_url=gateway_url)
    except JoinError as error:
        print(error, file=sys.stderr)  # noqa: T201 - for the person who typed it
        return 2
    os.environ.update(environment_of(joined, directory, gateway_url=gateway_url, gateway=gateway))
    return run_agent()


if __name__ == "__main__":
    sys.exit(main())

"""The agent's environment, read in one place."""

from collections.abc import Mapping
from math import inf
from pathlib import Path

from msgspec import Struct

from workers.agent.gateway_keeper import GatewayPlace, read_place

LONGEST_DRAIN_S = 600.0


class SettingsError(ValueError):
    """The message names the variable and what it should be."""


class AgentSettings(Struct, frozen=True, kw_only=True):
    """`broker_url` None: no nudges. `stops_engines`: engines end with the agent, instead of serving on.

    `gateway` is where the agent keeps a gateway running, None where somebody else does. `drain_limit_s` is how long an
    engine that leaves may finish what it has.
    """

    node_id: str
    token: str
    control_url: str
    node_directory: Path
    broker_url: str | None = None
    gateway_url: str = ""
    gateway: GatewayPlace | None = None
    stops_engines: bool = False
    drain_limit_s: float = LONGEST_DRAIN_S


def read_settings(environ: Mapping[str, str]) -> AgentSettings:
    control_url = _required(environ, "TOKENYARD_CONTROL_URL")
    if not control_url.startswith(("ws://", "wss://")):
        raise SettingsError("TOKENYARD_CONTROL_URL should begin with ws:// or wss://")
    return AgentSettings(
        node_id=_required(environ, "TOKENYARD_NODE_ID"),
        token=_required(environ, "TOKENYARD_AGENT_TOKEN"),
        control_url=control_url,
        node_directory=Path(_required(environ, "TOKENYARD_NODE_DIR")).absolute(),
        broker_url=environ.get("TOKENYARD_BROKER_URL") or None,
        gateway_url=environ.get("TOKENYARD_GATEWAY_URL", ""),
        gateway=_gateway(environ),
        stops_engines=_flag(environ, "TOKENYARD_AGENT_STOP_ENGINES"),
        drain_limit_s=_seconds(environ, "TOKENYARD_AGENT_DRAIN_LIMIT_S", LONGEST_DRAIN_S),
    )


def _required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise SettingsError(f"{name} is not set")
    return value


def _gateway(environ: Mapping[str, str]) -> GatewayPlace | None:
    try:
        return read_place(environ)
    except ValueError as error:
        raise SettingsError("TOKENYARD_GATEWAY_PORT and TOKENYARD_GATEWAY_ADMIN_PORT should be numbers") from error


def _flag(environ: Mapping[str, str], name: str) -> bool:
    value = environ.get(name, "0")
    if value not in ("0", "1"):
        raise SettingsError(f"{name} should be 0 or 1")
    return value == "1"


def _seconds(environ: Mapping[str, str], name: str, usual: float) -> float:
    try:
        value = float(environ.get(name) or usual)
    except ValueError as error:
        raise SettingsError(f"{name} should be a number of seconds") from error
    if not 0 <= value < inf:
        raise SettingsError(f"{name} should be a number of seconds")
    return value

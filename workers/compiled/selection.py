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
    "workers/gateway/apis/events.py",
    "workers/gateway/attempts/*.py",
    "workers/gateway/driving/*.py",
    "workers/gateway/events/*.py",
    "workers/gateway/exchanges/*.py",
    "workers/gateway/front/*.py",
    "workers/gateway/http/*.py",
    "workers/gateway/limits/*.py",
    "workers/gateway/observing/metrics.py",
    "workers/gateway/payload/*.py",
    "workers/gateway/records/*.py",
    "workers/gateway/snapshots/*.py",
    "workers/scheduling/*.py",
    "workers/scheduling/[!p]*/*.py",  # all but the peers, which are there to be compared with
    "workers/scheduling/p[!e]*/*.py",
    "workers/simulator/decodes.py",
    "workers/simulator/engine.py",
    "workers/simulator/finishing.py",
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
        "gateway.attempts.combining",
        "gateway.attempts.counting",
        "gateway.driving.batching",
        "gateway.driving.explaining",
        "gateway.driving.recurring",
        "gateway.driving.workflows",
        "gateway.events.dialects",
        "gateway.events.loose_events",
        "gateway.exchanges.applying",
        "gateway.exchanges.as_chat",
        "gateway.exchanges.continued_stream",
        "gateway.exchanges.continuing",
        "gateway.exchanges.continuing_named",
        "gateway.front.leaving",
        "gateway.front.outcomes",
        "gateway.front.stored",
        "gateway.http.handover",
        "gateway.limits.authority",
        "gateway.limits.figures",
        "gateway.limits.link",
        "gateway.limits.refusals",
        "gateway.limits.rulebook",
        "gateway.limits.valkey",
        "gateway.payload.bodies",
        "gateway.payload.forms",
        "gateway.snapshots.files",
        "gateway.snapshots.networks",
        "scheduling.endpoint_spec",
        "scheduling.interface",
        "scheduling.latency.step_cost",
        "scheduling.tuning",
    )
)
_TYPED_BY = ("compiled", "contracts", "gateway", "scheduling", "simulator")
# Changes whenever what is done with the sources does, so that builds of older steps are not used.
_REVISION = "4"


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

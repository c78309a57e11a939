"""What can be listed: where it is, what its table shows, and by which field people name it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from workers.cli.errors import INVALID, CLIError
from workers.cli.suggesting import suggestion

Row = Mapping[str, Any]
Cell = Callable[[Row], Any]
UNKNOWN = "–"
_GIB = 1024**3
_STEPS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


@dataclass(frozen=True)
class Column:
    heading: str
    cell: Cell
    is_wide: bool = False


@dataclass(frozen=True)
class Kind:
    """`named_by` is the filter that finds one by its name; "" for what has only an id."""

    name: str
    path: str
    columns: tuple[Column, ...]
    named_by: str = "name"
    short: tuple[str, ...] = ()


def field(name: str) -> Cell:
    return lambda row: row.get(name)


def column(heading: str, name: str = "", *, is_wide: bool = False) -> Column:
    return Column(heading, field(name or heading.lower().replace(" ", "_")), is_wide)


def age(name: str = "created_at") -> Cell:
    def shown(row: Row) -> str:
        text = row.get(name)
        if not text:
            return UNKNOWN
        seconds = max(0, int((datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()))
        return next((f"{seconds // size}{unit}" for size, unit in _STEPS if seconds >= size), "0s")

    return shown


def gib(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count / _GIB:.1f}"


def path_of(name: str) -> Cell:
    """A field by its name, `rollout.state` one within another; raises KeyError."""

    def found(row: Row) -> Any:
        value: Any = row
        for part in name.split("."):
            if not isinstance(value, Mapping):
                raise KeyError(part)
            value = value[part]
        return value

    return found


def _node_state(row: Row) -> str:
    marks = [word for name, word in (("is_cordoned", "cordoned"), ("is_draining", "draining")) if row.get(name)]
    return ",".join(["lost" if row.get("is_lost") else str(row["state"]), *marks])


def _gpus(row: Row) -> str:
    names = [each["model"] or each["name"] for each in row.get("accelerators", []) if each["kind"] != "cpu"]
    return ", ".join(f"{names.count(name)}x{name}" for name in dict.fromkeys(names)) or "none"


def _labels(row: Row) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(row.get("labels", {}).items()))


def _replica_state(row: Row) -> str:
    return f"{row['state']} (draining)" if row.get("is_draining") and row["state"] != "draining" else str(row["state"])


def _ready(row: Row) -> str:
    return f"{row['ready_count']}/{row['wanted_count']}"


def _rollout(row: Row) -> str:
    state = str(row["rollout"]["state"])
    return "" if state == "done" else f"{state}, {row['rollout']['newer_ready_count']} new"


def _targets(row: Row) -> str:
    return ", ".join(f"{each['version']} {each['weight']}" for each in row.get("targets", []))


_AGE = Column("AGE", age())
_ID = column("ID", is_wide=True)
KINDS = (
    Kind(
        "nodes", "nodes/",
        (
            column("NAME"), Column("STATE", _node_state), Column("GPUS", _gpus), Column("SEEN", age("last_seen_at")),
            Column("LABELS", _labels), _AGE, _ID, column("GATEWAY", "gateway_url", is_wide=True),
            column("AGENT", "agent_version", is_wide=True),
        ),
        short=("node", "no"),
    ),
    Kind("models", "models/", (column("NAME"), column("TASK"), _AGE, _ID), short=("model",)),
    Kind(
        "versions", "versions/",
        (
            column("MODEL", "model_name"), column("LABEL"), column("ENGINE"), column("SOURCE"), column("QUANTISATION"),
            Column("WEIGHTS GIB", lambda row: gib(row.get("weight_bytes"))), _AGE, _ID,
            Column("TAGS", lambda row: ",".join(row.get("tags", [])), is_wide=True), column("LICENCE", is_wide=True),
        ),
        named_by="model:label", short=("version", "ver"),
    ),
    Kind(
        "deployments", "deployments/",
        (
            column("NAME"), column("VERSION"), Column("READY", _ready), Column("ROLLOUT", _rollout),
            _AGE, _ID, column("AT ONCE", "max_running_requests", is_wide=True),
        ),
        short=("deployment", "deploy", "dep"),
    ),
    Kind(
        "replicas", "replicas/",
        (
            column("ID"), column("DEPLOYMENT", "deployment_name"), column("NODE", "node_name"),
            Column("STATE", _replica_state), column("RESTARTS"), Column("SINCE", age("state_changed_at")),
            column("ALARM"), column("PORT", is_wide=True), column("DETAIL", is_wide=True),
        ),
        named_by="", short=("replica", "rep"),
    ),
    Kind(
        "routes", "routes/", (column("NAME", "public_name"), Column("TARGETS", _targets), _AGE, _ID),
        named_by="public_name", short=("route",),
    ),
    Kind(
        "tenants", "tenants/", (column("NAME", "full_name"), column("KIND"), _AGE, _ID), named_by="name",
        short=("tenant",),
    ),
    Kind("service-classes", "service-classes/", (column("NAME"), column("RANK"), _ID), short=("service-class",)),
    Kind(
        "slo-profiles", "slo-profiles/",
        (column("NAME"), column("TTFT MS", "ttft_ms"), column("TPOT MS", "tpot_ms"), _ID),
        short=("slo-profile", "slo"),
    ),
    Kind(
        "prices", "prices/",
        (
            Column("OF", lambda row: row.get("version") or row.get("model")), column("INPUT", "input_pico_usd"),
            column("CACHED", "cached_input_pico_usd"), column("OUTPUT", "output_pico_usd"),
            column("FROM", "effective_from"), _ID,
        ),
        named_by="", short=("price",),
    ),
    Kind(
        "default-limits", "default-limits/", (column("KIND"), column("SCOPE"), column("MODEL"), column("AMOUNT"), _ID),
        named_by="", short=("default-limit",),
    ),
    Kind(
        "budgets", "budgets/", (column("NAME"), column("AMOUNT USD", "amount_usd"), _AGE, _ID), short=("budget",),
    ),
    Kind(
        "join-tokens", "join-tokens/",
        (
            column("PREFIX"), Column("LABELS", _labels), column("EXPIRES", "expires_at"), column("USED", "used_at"),
            column("BY", "created_by"), _ID,
        ),
        named_by="prefix", short=("join-token",),
    ),
    Kind(
        "keys", "api-keys/", (column("NAME"), column("PREFIX"), column("TENANT", "tenant_id"), _AGE, _ID),
        short=("key", "api-keys", "api-key"),
    ),
    Kind(
        "users", "users/", (column("NAME", "username"), column("EMAIL"), column("ACTIVE", "is_active"), _ID),
        named_by="username", short=("user",),
    ),
    Kind(
        "audit", "audit/",
        (
            column("AT"), column("WHO", "actor_name"), column("WHAT", "action"), column("KIND", "subject_type"),
            column("NAME", "subject_name"), _ID,
        ),
        named_by="", short=("audit-entries",),
    ),
    Kind(
        "events", "events/",
        (
            Column("AGE", age("at")), column("DEPLOYMENT", "deployment_name"), column("REPLICA", "replica_id"),
            column("STATE"), column("DETAIL"), column("AT", is_wide=True),
        ),
        named_by="", short=("event", "ev"),
    ),
)  # fmt: skip
_BY_NAME = {name: kind for kind in KINDS for name in (kind.name, *kind.short)}


def is_kind(text: str) -> bool:
    return text.lower() in _BY_NAME


def find_kind(text: str) -> Kind:
    kind = _BY_NAME.get(text.lower())
    if kind is None:
        names = ", ".join(each.name for each in KINDS)
        meant = suggestion(text.lower(), [each.name for each in KINDS])
        raise CLIError(f"no kind {text!r}{meant}; there are: {names}", INVALID)
    return kind

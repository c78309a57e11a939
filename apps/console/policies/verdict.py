"""Whether anything is wrong, since when, and for whom: the first thing the console says. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from apps.console.policies.measures import ago, measure

OK = "ok"
WARNING = "warning"
BREACH = "breach"
UNKNOWN = "unknown"
_RANK = {BREACH: 0, WARNING: 1, UNKNOWN: 2}
ALL_IS_WELL = "Every node is heard, every deployment has its replicas, every gateway acts on the newest snapshot."
MANY_UNSENT_RECORDS = 10_000
START_IS_SLOW_AFTER = timedelta(minutes=10)


@dataclass(frozen=True)
class Problem:
    """`about` names what it is about, as the frame's keys do: "node.<id>", "deployment.<id>", or a page's name.

    `since` and `whom` say again, for lists, what the text says where it is known: since when, and who notices.
    """

    level: str
    text: str
    about: str
    since: datetime | None = None
    whom: str = ""


@dataclass(frozen=True)
class Verdict:
    state: str
    title: str
    note: str = ""
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class NodeCondition:
    node_id: str
    name: str
    state: str
    last_seen_at: datetime | None
    is_fresh: bool
    active_generation: int | None
    gateway_error: str


@dataclass(frozen=True, kw_only=True)
class DeploymentCondition:
    deployment_id: str
    name: str
    wanted: int
    ready: int
    failed_detail: str
    is_starting: bool
    public_names: Sequence[str]
    changed_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What the verdict is made from. None is unknown."""

    now: datetime
    nodes: Sequence[NodeCondition]
    deployments: Sequence[DeploymentCondition]
    generation: int | None
    ttft_ms_p95: float | None
    ttft_slo_ms: int | None
    ttft_slo_name: str
    failures_per_s: float | None
    unsent_records: int | None


def judge(condition: Condition) -> Verdict:
    problems = sorted(_problems(condition), key=lambda problem: _RANK[problem.level])
    if not problems:
        return Verdict(OK, "All is well", ALL_IS_WELL)
    worst = problems[0].level
    noun = "thing needs" if len(problems) == 1 else "things need"
    return Verdict(worst, f"{len(problems)} {noun} attention", problems=problems)


def _problems(condition: Condition) -> Iterator[Problem]:
    if not condition.nodes:
        yield Problem(WARNING, "No node has joined yet, so nothing can be served", "fleet")
    for node in condition.nodes:
        yield from _node_problems(node, condition)
    for deployment in condition.deployments:
        yield from _deployment_problems(deployment, condition.now)
    yield from _service_problems(condition)


def _node_problems(node: NodeCondition, condition: Condition) -> Iterator[Problem]:
    about = f"node.{node.node_id}"
    if node.state == "offline":
        since = f", last heard {ago(condition.now - node.last_seen_at)}" if node.last_seen_at else ""
        yield Problem(BREACH, f"Node {node.name} is silent{since}; what it runs is unknown", about, node.last_seen_at)
    elif node.state == "online" and not node.is_fresh:
        yield Problem(UNKNOWN, f"Node {node.name} has sent no telemetry for some seconds", about)
    if node.gateway_error:
        yield Problem(BREACH, f"The gateway of {node.name} refused the newest snapshot: {node.gateway_error}", about)
    elif node.state == "online" and node.active_generation not in {None, condition.generation}:
        text = f"The gateway of {node.name} still serves generation {node.active_generation} of {condition.generation}"
        yield Problem(WARNING, text, about)


def _deployment_problems(deployment: DeploymentCondition, now: datetime) -> Iterator[Problem]:
    about = f"deployment.{deployment.deployment_id}"
    since = f" since {ago(now - deployment.changed_at).removesuffix(' ago')}" if deployment.changed_at else ""
    count = f"{deployment.ready} of {deployment.wanted} replicas ready"
    whom = f"those who ask for {', '.join(deployment.public_names)}" if deployment.public_names else ""
    noticed: dict[str, Any] = {"about": about, "since": deployment.changed_at, "whom": whom}
    count = f"{count}, for {whom}" if whom else count
    if deployment.failed_detail:
        yield Problem(BREACH, f"{deployment.name}: {count}{since}: {deployment.failed_detail}", **noticed)
    elif deployment.ready < deployment.wanted:
        is_slow = not deployment.changed_at or now - deployment.changed_at > START_IS_SLOW_AFTER
        level = WARNING if deployment.is_starting and not is_slow else BREACH
        yield Problem(level, f"{deployment.name}: {count}{since}", **noticed)


def _service_problems(condition: Condition) -> Iterator[Problem]:
    p95, slo = condition.ttft_ms_p95, condition.ttft_slo_ms
    if p95 is not None and slo is not None and p95 > slo:
        text = (
            f"p95 TTFT is {measure(p95, 'ms')}, last 60 s, over the {measure(slo, 'ms')} that {condition.ttft_slo_name}"
        )
        yield Problem(WARNING, f"{text} tenants are promised", "requests", whom=f"{condition.ttft_slo_name} tenants")
    if condition.failures_per_s:
        yield Problem(WARNING, f"{measure(condition.failures_per_s, 'requests_per_s')} fail or are refused", "requests")
    if condition.unsent_records is not None and condition.unsent_records > MANY_UNSENT_RECORDS:
        unsent = measure(condition.unsent_records, "count")
        yield Problem(WARNING, f"{unsent} usage records wait on nodes to be sent", "fleet")

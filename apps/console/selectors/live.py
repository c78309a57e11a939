"""The live frame: whether anything is wrong, the figures that a page shows, and the samples that charts plot."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from apps.console.policies import frames
from apps.console.policies.verdict import Problem, Verdict, judge
from apps.console.selectors.live_values import LiveValues
from apps.console.selectors.picture import condition_of, read_picture
from apps.deployments.models import Replica
from apps.telemetry.selectors.frames import SERIES_S, list_frames, list_series

PROBLEMS_SHOWN = 12


@dataclass(frozen=True)
class Frame:
    """`samples` are plain numbers by the names of the series."""

    at_s: int
    verdict: Verdict
    values: LiveValues
    samples: dict[str, float | None]


def read_frame(*, now_s: float) -> Frame:
    picture = read_picture(now_s=now_s)
    verdict = judge(condition_of(picture))
    return Frame(int(now_s), verdict, LiveValues(picture), frames.samples_of(picture.overview))


def read_history(*, now_s: float) -> dict[str, Any]:
    return {"type": "history", **frames.history_of(list_series(since_s=now_s - SERIES_S))}


def told_verdict(verdict: Verdict) -> dict[str, Any]:
    """As pages show it: the worst problems, each with where it leads, and how many more there are."""
    shown = [
        {"level": each.level, "text": each.text, "url": url_of(each)} for each in verdict.problems[:PROBLEMS_SHOWN]
    ]
    more = len(verdict.problems) - len(shown)
    return {"state": verdict.state, "title": verdict.title, "note": verdict.note, "problems": shown, "more": more}


def url_of(problem: Problem) -> str:
    kind, _, identity = problem.about.partition(".")
    return reverse(f"console:{kind}", args=[identity] if identity else [])


def read_logs(replicas: Sequence[Replica]) -> list[dict[str, Any]]:
    """The last lines each replica's engine wrote, as far as its node's newest telemetry carries them."""
    reported = [report for frame in list_frames() for report in frame.telemetry.replicas if not report.follows]
    reports = {report.replica_id: report for report in reported}
    found = [(replica, reports.get(str(replica.pk))) for replica in replicas]
    return [
        {
            "node": replica.node,
            "port": replica.port,
            "element_id": f"log-{replica.pk}",
            "text": "\n".join(report.log_tail),
        }
        for replica, report in found
        if report is not None and report.log_tail
    ]

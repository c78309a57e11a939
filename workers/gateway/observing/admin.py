"""What the admin port shows: health, readiness, metrics, and why a request went where it went."""

import json
from collections.abc import Callable
from urllib.parse import unquote

import msgspec

from workers.contracts.decisions import RequestDecision
from workers.contracts.telemetry import GatewayReport
from workers.gateway.observing.exposition import CONTENT_TYPE, render
from workers.gateway.observing.metrics import RequestMetrics

JSON = "application/json"
DECISION = "/decisions/"
# The loop beats four times a second: after so long without, it is stuck and not busy.
STUCK_AFTER_S = 10.0


class Pages:
    """What is shown. `read_report` returns the report of the last second, `explain` what a request met."""

    def __init__(
        self,
        read_report: Callable[[], GatewayReport],
        metrics: RequestMetrics,
        explain: Callable[[str], RequestDecision | None],
        seconds_since_beat: Callable[[], float],
    ) -> None:
        self._read_report = read_report
        self._metrics = metrics
        self._explain = explain
        self._seconds_since_beat = seconds_since_beat
        self._pages = {
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/metrics": self._metrics_page,
            "/report": self._report,
        }

    def answer(self, path: str) -> tuple[int, str, str]:
        """Status, content type and body."""
        if path.startswith(DECISION):
            return _decision(self._explain(unquote(path.removeprefix(DECISION))))
        page = self._pages.get(path)
        return page() if page else (404, "text/plain", f"try {' '.join(self._pages)} {DECISION}ID\n")

    @property
    def _is_stuck(self) -> bool:
        return self._seconds_since_beat() > STUCK_AFTER_S

    def _healthz(self) -> tuple[int, str, str]:
        boot_id = self._read_report().boot_id
        if self._is_stuck:
            return 503, JSON, json.dumps({"status": "stuck", "boot_id": boot_id})
        return 200, JSON, json.dumps({"status": "alive", "boot_id": boot_id})

    def _readyz(self) -> tuple[int, str, str]:
        report = self._read_report()
        reasons = reasons_not_ready(report)
        if self._is_stuck:
            reasons.append("the event loop is stuck")
        return readiness(reasons, report)

    def _metrics_page(self) -> tuple[int, str, str]:
        return 200, CONTENT_TYPE, render(self._read_report(), self._metrics)

    def _report(self) -> tuple[int, str, str]:
        return 200, JSON, msgspec.json.encode(self._read_report()).decode()


def reasons_not_ready(report: GatewayReport) -> list[str]:
    reasons = []
    if not report.active_generation:
        reasons.append(f"no snapshot: {report.snapshot_error}")
    if not report.endpoints_up:
        reasons.append("no engine is up")
    if report.spool_error:
        reasons.append(report.spool_error)
    if report.is_stopping:
        reasons.append("it is stopping")
    return reasons


def readiness(reasons: list[str], report: GatewayReport) -> tuple[int, str, str]:
    """`warnings` are of what was refused while something older serves in its place."""
    warnings = [error for error in (report.snapshot_error, report.limits_error) if error]
    body = {"ready": not reasons, "reasons": reasons, "warnings": warnings}
    return 503 if reasons else 200, JSON, json.dumps(body)


def _decision(found: RequestDecision | None) -> tuple[int, str, str]:
    if found is None:
        return 404, "text/plain", "this gateway does not remember that request\n"
    return 200, JSON, msgspec.json.encode(found).decode()

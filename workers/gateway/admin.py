"""Health, readiness and metrics, on a port and a thread of their own, so that no load delays a probe."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote

import msgspec

from workers.contracts.decisions import RequestDecision
from workers.contracts.telemetry import GatewayReport
from workers.gateway.exposition import CONTENT_TYPE, render
from workers.gateway.metrics import RequestMetrics

_PROBE_TIMEOUT_S = 5
_DECISION = "/decisions/"


def start_admin(
    host: str,
    port: int,
    read_report: Callable[[], GatewayReport],
    metrics: RequestMetrics,
    explain: Callable[[str], RequestDecision | None],
) -> ThreadingHTTPServer:
    """Serves until `shutdown()`. `read_report` returns the report of the last second, `explain` what a request met."""

    def metrics_page(report: GatewayReport) -> tuple[int, str, str]:
        return 200, CONTENT_TYPE, render(report, metrics)

    class Probe(BaseHTTPRequestHandler):
        timeout = _PROBE_TIMEOUT_S

        def do_GET(self) -> None:
            status, kind, body = self._answer(self.path.partition("?")[0])
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def _answer(self, path: str) -> tuple[int, str, str]:
            pages = {"/healthz": _healthz, "/readyz": _readyz, "/metrics": metrics_page, "/report": _report}
            if path.startswith(_DECISION):
                return _decision(explain(unquote(path.removeprefix(_DECISION))))
            page = pages.get(path)
            return page(read_report()) if page else (404, "text/plain", f"try {' '.join(pages)} {_DECISION}ID\n")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            pass

    server = ThreadingHTTPServer((host, port), Probe)
    server.daemon_threads = True
    Thread(target=server.serve_forever, name="admin", daemon=True).start()
    return server


def reasons_not_ready(report: GatewayReport) -> list[str]:
    reasons = []
    if not report.active_generation:
        reasons.append(f"no snapshot: {report.snapshot_error}")
    if not report.endpoints_up:
        reasons.append("no engine is up")
    if report.spool_error:
        reasons.append(report.spool_error)
    return reasons


def _healthz(report: GatewayReport) -> tuple[int, str, str]:
    return 200, "application/json", json.dumps({"status": "alive", "boot_id": report.boot_id})


def _readyz(report: GatewayReport) -> tuple[int, str, str]:
    reasons = reasons_not_ready(report)
    return 503 if reasons else 200, "application/json", json.dumps({"ready": not reasons, "reasons": reasons})


def _report(report: GatewayReport) -> tuple[int, str, str]:
    return 200, "application/json", msgspec.json.encode(report).decode()


def _decision(found: RequestDecision | None) -> tuple[int, str, str]:
    if found is None:
        return 404, "text/plain", "this gateway does not remember that request\n"
    return 200, "application/json", msgspec.json.encode(found).decode()

"""Health, readiness and metrics, on a port and a thread of their own, so that no load delays a probe."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from workers.contracts.telemetry import GatewayReport
from workers.gateway.exposition import CONTENT_TYPE, render
from workers.gateway.metrics import RequestMetrics

_PROBE_TIMEOUT_S = 5


def start_admin(
    host: str, port: int, read_report: Callable[[], GatewayReport], metrics: RequestMetrics
) -> ThreadingHTTPServer:
    """Serves until `shutdown()`. `read_report` returns the report of the last second."""

    def metrics_page(report: GatewayReport) -> tuple[int, str, str]:
        return 200, CONTENT_TYPE, render(report, metrics)

    class Probe(BaseHTTPRequestHandler):
        timeout = _PROBE_TIMEOUT_S

        def do_GET(self) -> None:
            pages = {"/healthz": _healthz, "/readyz": _readyz, "/metrics": metrics_page, "/report": _report}
            page = pages.get(self.path.partition("?")[0])
            status, kind, body = page(read_report()) if page else (404, "text/plain", "try " + " ".join(pages) + "\n")
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

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
    fields = {name: getattr(report, name) for name in report.__struct_fields__}
    return 200, "application/json", json.dumps(fields)

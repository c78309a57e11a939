"""Health, readiness and metrics, on a port and a thread of their own, so that no load delays a probe."""

import json
import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from workers.contracts.telemetry import GatewayReport
from workers.gateway.exposition import CONTENT_TYPE, render
from workers.gateway.metrics import RequestMetrics

_PROBE_TIMEOUT_S = 5
_JSON = "application/json"


# The loop beats four times a second: after so long without, it is stuck and not busy.
STUCK_AFTER_S = 10.0


def start_admin(
    listening: socket.socket,
    read_report: Callable[[], GatewayReport],
    metrics: RequestMetrics,
    seconds_since_beat: Callable[[], float],
) -> ThreadingHTTPServer:
    """Serves until `shutdown()`. `read_report` returns the report of the last second."""

    def is_stuck() -> bool:
        return seconds_since_beat() > STUCK_AFTER_S

    def healthz(report: GatewayReport) -> tuple[int, str, str]:
        status = "stuck" if is_stuck() else "alive"
        return 503 if is_stuck() else 200, _JSON, json.dumps({"status": status, "boot_id": report.boot_id})

    def readyz(report: GatewayReport) -> tuple[int, str, str]:
        reasons = reasons_not_ready(report) + (["the event loop is stuck"] if is_stuck() else [])
        return 503 if reasons else 200, _JSON, json.dumps({"ready": not reasons, "reasons": reasons})

    def metrics_page(report: GatewayReport) -> tuple[int, str, str]:
        return 200, CONTENT_TYPE, render(report, metrics)

    class Probe(BaseHTTPRequestHandler):
        timeout = _PROBE_TIMEOUT_S

        def do_GET(self) -> None:
            pages = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics_page, "/report": _report}
            page = pages.get(self.path.partition("?")[0])
            status, kind, body = page(read_report()) if page else (404, "text/plain", "try " + " ".join(pages) + "\n")
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            pass

    server = ThreadingHTTPServer(listening.getsockname(), Probe, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
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
    if report.is_stopping:
        reasons.append("it is stopping")
    return reasons


def _report(report: GatewayReport) -> tuple[int, str, str]:
    fields = {name: getattr(report, name) for name in report.__struct_fields__}
    return 200, _JSON, json.dumps(fields)

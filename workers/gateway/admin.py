"""Health, readiness and metrics, on a port and a thread of their own, so that no load delays a probe."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from workers.contracts.telemetry import GatewayReport

_PROBE_TIMEOUT_S = 5


def start_admin(host: str, port: int, read_report: Callable[[], GatewayReport]) -> ThreadingHTTPServer:
    """Serves until `shutdown()`. `read_report` returns the report of the last second."""

    class Probe(BaseHTTPRequestHandler):
        timeout = _PROBE_TIMEOUT_S

        def do_GET(self) -> None:
            pages = {"/healthz": _healthz, "/readyz": _readyz, "/metrics": _metrics, "/report": _report}
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


def _metrics(report: GatewayReport) -> tuple[int, str, str]:
    return 200, "text/plain; version=0.0.4", "".join(_metric_lines(report))


def _metric_lines(report: GatewayReport) -> Iterator[str]:
    """Prometheus text: totals as counters, the rest as gauges; unknown values are left out, not 0."""
    for name in report.__struct_fields__:
        value = getattr(report, name)
        if isinstance(value, int | float):
            kind = "counter" if name.endswith("_total") and not name.startswith("endpoints") else "gauge"
            yield f"# TYPE tokenyard_gateway_{name} {kind}\ntokenyard_gateway_{name} {value}\n"
    yield "# TYPE tokenyard_gateway_queued_requests_by_class gauge\n"
    for service_class, count in report.queued_by_class.items():
        yield f'tokenyard_gateway_queued_requests_by_class{{service_class="{service_class}"}} {count}\n'

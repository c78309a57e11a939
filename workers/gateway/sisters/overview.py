"""The admin port of several processes: health, readiness and metrics of all together, and what each remembers."""

import json
from collections.abc import Callable, Sequence
from threading import Lock

import msgspec
from msgspec import Struct

from workers.contracts.telemetry import GatewayReport
from workers.gateway.observing.admin import DECISION, JSON, STUCK_AFTER_S, readiness, reasons_not_ready
from workers.gateway.observing.exposition import CONTENT_TYPE
from workers.gateway.sisters.control import Page
from workers.gateway.sisters.merging import Family, counted, merge_families, read_exposition, write_exposition

_OK = 200


class View(Struct, frozen=True):
    """Of one process: what it said last, and how long ago. One that is not up is starting, or is no more."""

    number: int
    is_up: bool
    restarts: int
    silent_s: float
    report: GatewayReport | None


class Overview:
    """Runs on the admin port's threads. `ask_all` asks every process for a page; None of one that did not answer."""

    def __init__(
        self,
        boot_id: str,
        *,
        read_views: Callable[[], Sequence[View]],
        read_report: Callable[[], GatewayReport],
        ask_all: Callable[[str], list[Page | None]],
        seconds_since_beat: Callable[[], float],
    ) -> None:
        self._boot_id = boot_id
        self._read_views = read_views
        self._read_report = read_report
        self._ask_all = ask_all
        self._seconds_since_beat = seconds_since_beat
        self._shown: dict[int, tuple[int, dict[str, Family]]] = {}
        self._gone: dict[str, Family] = {}
        self._lock = Lock()
        self._pages = {
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
            "/report": self._report,
        }

    def answer(self, path: str) -> tuple[int, str, str]:
        if path.startswith(DECISION):
            return self._decision(path)
        page = self._pages.get(path)
        return page() if page else (404, "text/plain", f"try {' '.join(self._pages)} {DECISION}ID\n")

    def _healthz(self) -> tuple[int, str, str]:
        stuck = self._stuck()
        word = "stuck" if stuck else "alive"
        body = {"status": word, "boot_id": self._boot_id, "processes": len(self._read_views())}
        return 503 if stuck else _OK, JSON, json.dumps(body)

    def _readyz(self) -> tuple[int, str, str]:
        reasons = self._stuck() + [f"process {one.number} is starting" for one in self._read_views() if not one.is_up]
        report = self._read_report()
        return readiness([*reasons, *reasons_not_ready(report)], report)

    def _stuck(self) -> list[str]:
        views = self._read_views()
        stuck = [f"process {one.number} is stuck" for one in views if one.is_up and one.silent_s > STUCK_AFTER_S]
        return stuck + (["the parent is stuck"] if self._seconds_since_beat() > STUCK_AFTER_S else [])

    def _report(self) -> tuple[int, str, str]:
        return _OK, JSON, msgspec.json.encode(self._read_report()).decode()

    def _decision(self, path: str) -> tuple[int, str, str]:
        pages = [page for page in self._ask_all(path) if page is not None]
        found = next((page for page in pages if page.status == _OK), None)
        if found is None:
            return 404, "text/plain", "this gateway does not remember that request\n"
        return found.status, found.kind, found.body

    # -- metrics

    def _metrics(self) -> tuple[int, str, str]:
        views, pages = self._read_views(), self._ask_all("/metrics")
        with self._lock:
            for view, page in zip(views, pages, strict=True):
                self._note(view, page)
            shown = [shown for _, shown in self._shown.values()]
            merged = merge_families([families_of_processes(views), *shown, self._gone])
        return _OK, CONTENT_TYPE, write_exposition(merged)

    def _note(self, view: View, page: Page | None) -> None:
        """One that does not answer now is shown as it was; of one that has died its counts stay."""
        restarts, shown = self._shown.get(view.number, (view.restarts, {}))
        if restarts != view.restarts:
            self._gone = merge_families([self._gone, counted(shown)])
            shown = {}
        if not view.is_up:
            shown = counted(shown)
        elif page is not None and page.status == _OK:
            shown = read_exposition(page.body)
        self._shown[view.number] = (view.restarts, shown)


def families_of_processes(views: Sequence[View]) -> dict[str, Family]:
    up = {f'tokenyard_gateway_process_up{{process="{one.number}"}}': float(one.is_up) for one in views}
    name = "tokenyard_gateway_process_restarts_total"
    restarts = {f'{name}{{process="{one.number}"}}': float(one.restarts) for one in views}
    return {
        "tokenyard_gateway_process_up": Family("gauge", "1 for a process that serves.", up),
        name: Family("counter", "Times that a process was started again.", restarts),
    }

import json

import pytest

from workers.contracts.decisions import DecisionFile, RequestDecision
from workers.contracts.telemetry import GatewayReport
from workers.gateway.sisters.control import Page
from workers.gateway.sisters.news import News
from workers.gateway.sisters.overview import Overview, View

pytestmark = pytest.mark.unit

READY = GatewayReport(gateway_id="g", boot_id="b", active_generation=1, endpoints_up=1)


class Gateway:
    """Two processes, and what they would answer."""

    def __init__(self):
        self.views = [View(number, True, 0, 0.0, READY) for number in range(2)]
        self.report = READY
        self.pages = {"/metrics": [self.metrics(1), self.metrics(2)]}
        self.since_beat_s = 0.0
        self.overview = Overview(
            "parent",
            read_views=lambda: self.views,
            read_report=lambda: self.report,
            ask_all=lambda path: self.pages.get(path, [None, None]),
            seconds_since_beat=lambda: self.since_beat_s,
        )

    @staticmethod
    def metrics(count):
        return Page(1, 200, "text/plain", f"# TYPE asked_total counter\nasked_total {count}\n")

    def view(self, number, **changes):
        fields = {"number": number, "is_up": True, "restarts": 0, "silent_s": 0.0, "report": READY} | changes
        self.views[number] = View(**fields)

    def asked_total(self):
        _, _, text = self.overview.answer("/metrics")
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("asked_total "))

    def answer(self, path):
        status, _, body = self.overview.answer(path)
        return status, json.loads(body)


@pytest.fixture
def gateway():
    return Gateway()


def test_it_is_ready_when_every_process_can_serve(gateway):
    assert gateway.answer("/readyz") == (200, {"ready": True, "reasons": [], "warnings": []})
    gateway.view(1, is_up=False)
    assert gateway.answer("/readyz") == (503, {"ready": False, "reasons": ["process 1 is starting"], "warnings": []})
    gateway.view(1, silent_s=11.0)
    assert gateway.answer("/readyz")[1]["reasons"] == ["process 1 is stuck"]


def test_it_is_alive_while_none_is_stuck_and_one_that_starts_is_not(gateway):
    gateway.view(0, is_up=False, silent_s=60.0)
    assert gateway.answer("/healthz") == (200, {"status": "alive", "boot_id": "parent", "processes": 2})
    gateway.view(0, silent_s=60.0)
    assert gateway.answer("/healthz")[0] == 503
    gateway.view(0)
    gateway.since_beat_s = 11.0
    assert gateway.answer("/healthz")[0] == 503


def test_counts_are_added_and_never_go_back(gateway):
    assert gateway.asked_total() == 3
    gateway.pages["/metrics"] = [gateway.metrics(5), None]
    assert gateway.asked_total() == 7
    gateway.view(1, restarts=1)
    assert gateway.asked_total() == 7
    gateway.pages["/metrics"] = [gateway.metrics(5), gateway.metrics(1)]
    assert gateway.asked_total() == 8


def test_each_process_shows_whether_it_is_up(gateway):
    gateway.view(1, is_up=False, restarts=2)
    _, _, text = gateway.overview.answer("/metrics")
    assert 'tokenyard_gateway_process_up{process="1"} 0\n' in text
    assert 'tokenyard_gateway_process_restarts_total{process="1"} 2\n' in text


def test_a_decision_is_asked_of_all(gateway):
    gateway.pages["/decisions/r"] = [Page(1, 404, "text/plain", "no"), Page(1, 200, "application/json", '{"a":1}')]
    assert gateway.answer("/decisions/r") == (200, {"a": 1})
    assert gateway.overview.answer("/decisions/other")[0] == 404
    assert gateway.overview.answer("/other")[0] == 404


def decision(name):
    return RequestDecision(
        request_id=name, tenant_id="t", service_class="gold", version_id="v", arrived_at=0.0, is_over=True
    )


def told(boot_id, first, *names):
    return DecisionFile(boot_id=boot_id, first=first, decisions=[decision(name) for name in names])


def test_decisions_of_all_are_told_once_under_numbers_of_their_own():
    news = News("parent")
    assert news.take() is None
    news.add(0, told("a", 0, "a0", "a1"))
    news.add(1, told("b", 0, "b0"))
    news.add(0, told("a", 1, "a1", "a2"))
    news.add(1, told("c", 0, "c0"))
    found = news.take()
    assert (found.boot_id, found.first) == ("parent", 0)
    assert [one.request_id for one in found.decisions] == ["a0", "a1", "b0", "a2", "c0"]
    assert news.take() is None

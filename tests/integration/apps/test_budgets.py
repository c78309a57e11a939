"""Budgets: spend, forecast and alerts, told once by mail and by a signed webhook that reaches nothing private."""

import hashlib
import hmac
import json
import socket
import threading
import time
from datetime import timedelta
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from uuid import uuid4

import pytest
import time_machine
from django.core import mail

from apps.audit.models import AuditEntry
from apps.common.actors import SYSTEM
from apps.usage.models import Budget, BudgetAlert
from apps.usage.selectors.budgets import get_budget_status
from apps.usage.services import alerts as alerts_service
from apps.usage.services import rerating
from apps.usage.services.alerts import deliver_alerts
from apps.usage.services.budgets import create_budget, watch_budgets, webhook_key
from apps.usage.services.prices import set_price
from apps.usage.services.webhooks import UndeliveredError, post_json
from tests.factories.domain import NOW, make_version
from tests.factories.usage import ARRIVED_AT_S, ingest_records, make_record
from workers.contracts.snapshot import Price

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

DOLLAR = 10**12
MICRO_DOLLAR = 10**6
EIGHTY = "80.000000000000"


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers["content-length"])
        self.server.received.append((dict(self.headers), self.rfile.read(length), self.path))
        self.send_response(self.server.answers.pop(0) if self.server.answers else 204)
        self.send_header("location", "http://127.0.0.1:1/")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def receiver(settings):
    """A webhook of somebody whom the operator trusts."""
    settings.WEBHOOK_TRUSTED_HOSTS = ["127.0.0.1"]
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    server.received, server.answers = [], []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def spend(tenant, dollars, age_days=0):
    record = make_record(
        tenant_id=str(tenant.pk), cost_pico_usd=dollars * DOLLAR, arrived_at=ARRIVED_AT_S - age_days * 86_400 - 60
    )
    ingest_records(records=[record], node_id=uuid4(), now=NOW)


def budget_of(tenant, **facts):
    facts = {"name": "monthly", "amount_usd": Decimal(100)} | facts
    return create_budget(actor=SYSTEM, tenant=tenant, now=NOW, **facts)


def watched(now=NOW):
    watch_budgets(now=now)
    return deliver_alerts(clock=lambda: now)


def alerts():
    return list(BudgetAlert.objects.order_by("threshold_percent").values_list("threshold_percent", "is_forecast"))


def test_a_threshold_is_told_once_a_month_by_each_channel(people, receiver):
    url = f"http://127.0.0.1:{receiver.server_address[1]}/hook?x=1"
    budget = budget_of(people.tenant, mail_to=["cfo@example.com"], webhook_url=url)
    spend(people.tenant, 85, age_days=20)
    assert watched() == 4
    assert watched() == 0
    assert sorted(letter.subject for letter in mail.outbox) == [
        "Budget monthly has reached 50 % in November 2026",
        "Budget monthly has reached 80 % in November 2026",
    ]
    headers, body, path = receiver.received[0]
    lower = {name.lower(): value for name, value in headers.items()}
    sent_at, mac = (part.split("=")[1] for part in lower["x-tokenyard-signature"].split(","))
    right = hmac.new(webhook_key(budget).encode(), f"{sent_at}.".encode() + body, hashlib.sha256).hexdigest()
    assert (mac, path) == (right, "/hook?x=1")
    assert json.loads(body)["spent_usd"] == "85.000000000000"


def test_the_forecast_is_told_before_the_money_is_gone_and_then_the_spend(people):
    budget_of(people.tenant, mail_to=["cfo@example.com"], thresholds_percent=[100])
    spend(people.tenant, 95, age_days=1)
    watched()
    assert alerts() == [(100, True)]
    spend(people.tenant, 10)
    watched()
    assert alerts() == [(100, False), (100, True)] or alerts() == [(100, True), (100, False)]


def heard(receiver):
    """What a webhook was told, each with its headers."""
    told = ((headers, json.loads(body)) for headers, body, _ in receiver.received)
    return [{name.lower(): value for name, value in headers.items()} | facts for headers, facts in told]


def rerated(version, pico, after_s):
    """The version's price was wrong from the beginning; what came is priced anew, as finance would do it."""
    price = Price(input_pico_usd=pico, cached_input_pico_usd=pico, output_pico_usd=pico)
    now = NOW + timedelta(seconds=after_s)
    set_price(actor=SYSTEM, version=version, price=price, effective_from=NOW - timedelta(days=20), now=now)
    row = rerating.start_rerating(
        actor=SYSTEM, start=NOW - timedelta(days=19), end=NOW, reason="a wrong price", now=now + timedelta(seconds=1)
    )
    rerating.run_reratings(now=now)
    row.refresh_from_db()
    rerating.apply_rerating(actor=SYSTEM, rerating=row, now=now)
    rerating.run_reratings(now=now)


@pytest.mark.parametrize("was_told", [True, False])
def test_a_threshold_that_a_rerating_takes_back_is_withdrawn_and_counts_anew(people, receiver, was_told):
    """A budget was said to be spent four times over, and nobody was told that it is not."""
    url = f"http://127.0.0.1:{receiver.server_address[1]}/hook"
    budget = budget_of(people.tenant, mail_to=["cfo@example.com"], webhook_url=url, thresholds_percent=[50, 100])
    version = make_version()
    record = make_record(
        tenant_id=str(people.tenant.pk),
        version_id=str(version.pk),
        input_tokens=40_000_000,
        output_tokens=0,
        arrived_at=ARRIVED_AT_S - 60,
    )
    ingest_records(records=[record], node_id=uuid4(), now=NOW)
    rerated(version, 10 * MICRO_DOLLAR, 0)
    watch_budgets(now=NOW)
    if was_told:
        deliver_alerts(clock=lambda: NOW)
    rerated(version, 2 * MICRO_DOLLAR, 60)
    assert watched() == 2
    assert get_budget_status(budget, now=NOW).spent_usd == Decimal(80)
    withdrawn = [event for event in heard(receiver) if event["event"] == "budget.threshold_withdrawn"]
    assert [(event["threshold_percent"], event["spent_usd"]) for event in withdrawn] == [(100, EIGHTY)] * was_told
    below = [letter.subject for letter in mail.outbox if "below" in letter.subject]
    assert below == ["Budget monthly is below 100 % in November 2026"] * was_told
    mail.outbox.clear()
    rerated(version, 3 * MICRO_DOLLAR, 120)
    watched()
    assert [letter.subject for letter in mail.outbox] == ["Budget monthly has reached 100 % in November 2026"]
    assert len({event["x-tokenyard-delivery"] for event in heard(receiver)}) == len(receiver.received)


@pytest.mark.parametrize("days_later", [3, 90])
def test_a_month_that_is_over_is_watched_while_its_spend_still_moves(people, days_later):
    """Late records and new prices for last month crossed a threshold, and nobody was told of either."""
    later = NOW + timedelta(days=days_later)
    budget_of(people.tenant, mail_to=["cfo@example.com"], thresholds_percent=[100])
    version = make_version()
    spend_of = {"version_id": str(version.pk), "input_tokens": 40_000_000, "output_tokens": 0}
    record = make_record(tenant_id=str(people.tenant.pk), arrived_at=ARRIVED_AT_S - 60, **spend_of)
    ingest_records(records=[record], node_id=uuid4(), now=later)
    for after_s, dollars in enumerate((10, 2)):
        rerated(version, dollars * MICRO_DOLLAR, days_later * 86_400 + after_s * 60)
        for _ in range(2):
            watched(later)
    assert told_of_november() == [
        "Budget monthly has reached 100 % in November 2026",
        "Budget monthly is below 100 % in November 2026",
    ]


def told_of_november():
    return [letter.subject for letter in mail.outbox if "November" in letter.subject]


def test_late_records_reach_a_threshold_of_the_month_they_belong_to(people):
    budget_of(people.tenant, mail_to=["cfo@example.com"], thresholds_percent=[100])
    spend(people.tenant, 150)
    watched(NOW + timedelta(days=12))
    assert told_of_november() == []
    watched(NOW + timedelta(days=6))
    assert told_of_november() == ["Budget monthly has reached 100 % in November 2026"]


def test_a_budget_says_nothing_of_months_before_it_was_made(people):
    december = NOW + timedelta(days=3)
    create_budget(
        actor=SYSTEM, tenant=people.tenant, now=december, name="new", amount_usd=Decimal(1), mail_to=["c@example.com"]
    )
    spend(people.tenant, 150)
    watched(december)
    assert told_of_november() == []


def test_spend_of_others_of_other_models_and_of_last_month_counts_not(people):
    budget_of(people.tenant, mail_to=["cfo@example.com"], public_model="other-model")
    budget_of(people.other, mail_to=["cfo@example.com"])
    spend(people.tenant, 500)
    spend(people.other, 500, age_days=29)
    watched()
    assert alerts() == []


def test_a_webhook_that_fails_is_tried_again_later_and_says_why(people, receiver):
    receiver.answers = [500, 302, 200]
    budget_of(people.tenant, thresholds_percent=[50], webhook_url=f"http://127.0.0.1:{receiver.server_address[1]}/")
    spend(people.tenant, 60)
    assert watched() == 0
    assert BudgetAlert.objects.get().error == "the other side answered 500"
    assert watched(NOW + timedelta(seconds=30)) == 0
    assert len(receiver.received) == 1, "it waits before it tries again"
    assert watched(NOW + timedelta(minutes=2)) == 0
    assert BudgetAlert.objects.get().error == "the other side answered 302", "a redirect is not followed"
    assert watched(NOW + timedelta(minutes=10)) == 1


@pytest.fixture
def trickle(settings):
    """A webhook that answers a byte at a time, and for how many it was heard out."""
    settings.WEBHOOK_TRUSTED_HOSTS = ["127.0.0.1"]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        told = {"port": listening.getsockname()[1], "was_left": False}
        thread = threading.Thread(target=_trickle, args=(listening, told), daemon=True)
        thread.start()
        yield told
        thread.join()


def _trickle(listening, told):
    connection, _ = listening.accept()
    with connection:
        try:
            connection.sendall(b"HTTP/1.1 204 ")
            for _ in range(200):
                connection.sendall(b"n")
                time.sleep(0.02)
        except OSError:
            told["was_left"] = True


def test_a_webhook_that_answers_a_byte_at_a_time_is_left_when_its_time_is_over(trickle):
    with pytest.raises(UndeliveredError):
        post_json(f"http://127.0.0.1:{trickle['port']}/", b"{}", headers={}, timeout_s=0.2)
    for _ in range(500):
        if trickle["was_left"]:
            return
        time.sleep(0.01)
    pytest.fail("it was heard out")


@pytest.mark.parametrize("path", ["/büro?wer=jürgen", "/%C3%BC", "/a|b"])
def test_an_address_in_any_letters_stops_no_other_message(people, receiver, path):
    url = f"http://127.0.0.1:{receiver.server_address[1]}{path}"
    budget_of(people.tenant, thresholds_percent=[50], webhook_url=url)
    budget_of(people.tenant, name="other", thresholds_percent=[50], mail_to=["cfo@example.com"])
    spend(people.tenant, 60)
    assert watched() == 2
    assert [target.encode().isascii() for _, _, target in receiver.received] == [True]


def test_one_message_that_cannot_be_sent_at_all_stops_no_other(people, monkeypatch):
    def fail(*_, **__):
        raise ValueError("a header that no letter can have")

    monkeypatch.setattr(alerts_service, "_send_webhook", fail)
    budget_of(people.tenant, thresholds_percent=[50], webhook_url="https://example.com/")
    budget_of(people.tenant, name="other", thresholds_percent=[50], mail_to=["cfo@example.com"])
    spend(people.tenant, 60)
    assert watched() == 1
    assert BudgetAlert.objects.get(channel="webhook").error == "a header that no letter can have"


def test_a_slow_turn_leaves_nothing_to_another_process_that_it_is_about_to_send(people, monkeypatch):
    moments, sent = [NOW], []

    def send(alert, now):
        sent.append(alert.pk)
        if len(sent) == 1:
            moments.append(now + timedelta(minutes=10))
        else:
            deliver_alerts(clock=lambda: moments[-1])

    monkeypatch.setattr(alerts_service, "_send_mail", send)
    budget_of(people.tenant, thresholds_percent=[10, 20, 50], mail_to=["cfo@example.com"])
    spend(people.tenant, 60)
    watch_budgets(now=NOW)
    deliver_alerts(clock=lambda: moments[-1])
    assert len(sent) == len(set(sent)) == 3


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "0.0.0.0", "2130706433"])
def test_a_webhook_never_reaches_what_is_not_public(people, receiver, settings, host):
    settings.WEBHOOK_TRUSTED_HOSTS = []
    budget_of(people.tenant, thresholds_percent=[50], webhook_url=f"http://{host}:{receiver.server_address[1]}/")
    spend(people.tenant, 60)
    assert watched() == 0
    assert receiver.received == []
    assert BudgetAlert.objects.get().error in {
        "the host has an address that is not public", "the name of the host is not known",
    }  # fmt: skip


def test_budgets_are_set_by_finance_and_a_tenants_admin_and_seen_by_its_members(people, as_user):
    new = {"name": "b", "amount_usd": "10.00", "tenant_id": str(people.tenant.pk)}

    def post(who, **changes):
        return as_user(getattr(people, who)).post("/api/v1/budgets/", new | changes).status_code

    assert [post(who) for who in ("owner", "teammate", "viewer", "stranger")] == [201, 403, 403, 404]
    assert post("finance", name="c") == 201
    assert post("owner", tenant_id=None) == 403
    assert post("finance", tenant_id=None) == 201
    seen = {who: len(as_user(getattr(people, who)).get("/api/v1/budgets/").json()["results"]) for who in SEEN}
    assert seen == SEEN
    path = f"/api/v1/budgets/{Budget.objects.get(name='c').pk}/"
    assert [as_user(getattr(people, who)).get(path).status_code for who in ("teammate", "stranger")] == [200, 404]
    assert [as_user(getattr(people, who)).delete(path).status_code for who in ("stranger", "teammate", "owner")] == [
        404, 403, 204,
    ]  # fmt: skip
    assert AuditEntry.objects.filter(action="budget.deleted").count() == 1


def test_that_something_was_spent_since_is_no_reason_to_keep_a_budget(people, as_user):
    path = f"/api/v1/budgets/{budget_of(people.tenant).pk}/"
    with time_machine.travel(NOW):
        before = as_user(people.owner).get(path)
        spend(people.tenant, 3)
        assert as_user(people.owner).get(path).json()["spent_usd"] != before.json()["spent_usd"]
        assert as_user(people.owner).delete(path, headers={"If-Match": before["ETag"]}).status_code == 204


SEEN = {"owner": 2, "teammate": 2, "stranger": 0, "finance": 3}


@pytest.mark.parametrize(
    "fault",
    [
        {"zone": "Mars"},
        {"webhook_url": "ftp://x"},
        {"mail_to": ["nobody"]},
        {"thresholds_percent": [0]},
        {"thresholds_percent": list(range(1, 30))},
        {"amount_usd": "0"},
        {"amount_usd": "-5"},
        {"amount_usd": "1e999"},
        {"name": ""},
    ],
    ids=str,
)
def test_a_budget_that_makes_no_sense_is_refused(people, as_user, fault):
    new = {"name": "b", "amount_usd": "10.00", "tenant_id": str(people.tenant.pk)} | fault
    assert as_user(people.finance).post("/api/v1/budgets/", new).status_code == 400


def test_what_makes_an_address_a_secret_is_shown_to_nobody_again(people, as_user):
    new = {"name": "b", "amount_usd": "10.00", "tenant_id": str(people.tenant.pk)}
    hook = new | {"webhook_url": "https://hooks.example.com/services/T0/confidential?key=confidential"}
    made = as_user(people.owner).post("/api/v1/budgets/", hook).json()
    assert made["webhook_url"] == "https://hooks.example.com/…"
    for who in (people.owner, people.viewer):
        for path in (f"/api/v1/budgets/{made['id']}/", "/api/v1/budgets/", f"/budgets/{made['id']}/"):
            shown = as_user(who).get(path).content.decode()
            assert "hooks.example.com" in shown
            assert "confidential" not in shown
        assert as_user(who).get("/api/v1/budgets/", {"webhook_url": hook["webhook_url"]}).status_code == 400


def test_the_webhooks_key_is_shown_once_and_kept_nowhere(people, as_user):
    new = {
        "name": "b",
        "amount_usd": "10.00",
        "webhook_url": "https://example.com/",
        "tenant_id": str(people.tenant.pk),
    }
    client = as_user(people.owner)
    made = client.post("/api/v1/budgets/", new).json()
    shown = made["webhook_key"]
    again = (
        client.get(f"/api/v1/budgets/{made['id']}/").content.decode() + client.get("/api/v1/budgets/").content.decode()
    )
    assert shown not in again
    assert shown not in str([entry.after for entry in AuditEntry.objects.all()])

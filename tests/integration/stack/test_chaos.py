"""Every process of the stack is killed with -9 while clients count their tokens; then the records are compared."""

import json
import os
import signal
import time

import pytest

from tests.support.counting_client import CountingClient

pytestmark = [pytest.mark.integration, pytest.mark.timeout(560)]

VICTIMS = (
    "valkey",
    "web",
    "postgres",
    "agent",
    "gateway",
    "controller",
    "postgres",
    "web",
    "gateway",
    "valkey",
    "agent",
)
BETWEEN_S = 2.5
CLIENTS_PER_TENANT = 2
UNKNOWN_TO_ALL = "gateway_not_ready"  # a gateway that has only begun knows no key yet, so nobody to record it for
RECORDS = """
import json
from apps.common.rows import every_tenant
from datetime import timedelta
from django.utils import timezone
from apps.common.actors import SYSTEM
from apps.usage.models import UsageRecord
from apps.usage.selectors.health import get_record_health
from apps.usage.selectors.prices import get_tariffs
from apps.usage.selectors.reports import scope_for, sum_usage
from apps.usage.services.rating import rate_stored
with every_tenant():
    now = timezone.now()
    rows = list(UsageRecord.objects.filter(request_id__startswith="chaos-"))
    totals = sum_usage(scope=scope_for(actor=SYSTEM, start=now - timedelta(days=1), end=now + timedelta(days=1)))
    health = get_record_health(since=now - timedelta(days=1))
    names = ("request_id", "input_tokens", "output_tokens", "outcome", "usage_source")
    print("FOUND " + json.dumps({
        "records": [[getattr(row, name) for name in names] for row in rows],
        "summed": [totals.request_count, totals.input_tokens, totals.output_tokens, str(totals.cost_usd)],
        "counted": [
            UsageRecord.objects.count(), sum(row.input_tokens for row in UsageRecord.objects.all()),
            sum(row.output_tokens for row in UsageRecord.objects.all()),
            str(sum(row.cost_usd for row in UsageRecord.objects.all())),
        ],
        "missing": health.missing_count, "quarantined": health.quarantined_count,
        "mispriced": sum(rate_stored(row, get_tariffs()).is_changed for row in rows),
    }))
"""


@pytest.fixture(scope="module")
def supervisor(stack):
    with stack.up() as running:
        stack.wait_until_ready(running, timeout_s=200)
        yield running


def process_of(stack, name):
    return next(one for one in stack.state.processes if one.name == name)


def kill(stack, name):
    pid = process_of(stack, name).pid
    if pid is not None:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def wait_until_all_are_ready(stack, timeout_s=90):
    deadline = time.monotonic() + timeout_s
    while any(one.state != "ready" for one in stack.state.processes):
        assert time.monotonic() < deadline, stack.terminal()
        time.sleep(0.2)


def stored(stack):
    done = stack.command("manage", "shell", "-v", "0", "-c", RECORDS)
    lines = [line for line in done.stdout.split("\n") if "FOUND " in line]
    assert lines, done.stdout + done.stderr
    return json.loads(lines[0].partition("FOUND ")[2])


def counted_through_chaos(stack):
    demo = stack.demo
    clients = [
        CountingClient(number, url=demo["gateway_url"], key=tenant["api_key"], model=demo["model"])
        for number, tenant in enumerate(list(demo["tenants"].values()) * CLIENTS_PER_TENANT)
    ]
    for client in clients:
        client.start()
    for name in VICTIMS:
        time.sleep(BETWEEN_S)
        kill(stack, name)
    time.sleep(BETWEEN_S)
    for client in clients:
        client.stop()
    return [told for client in clients for told in client.told]


def wait_for_records(stack, told, timeout_s=120):
    """Until all that was answered is stored, and what is stored stays the same."""
    answered = [one for one in told if one.status is not None and one.code != UNKNOWN_TO_ALL]
    deadline, before = time.monotonic() + timeout_s, None
    while True:
        found = stored(stack)
        known = {record[0] for record in found["records"]}
        lost = [one for one in answered if one.request_id not in known]
        if not lost and not found["missing"] and found == before:
            return found
        assert time.monotonic() < deadline, (lost, found["missing"])
        before = found
        time.sleep(1)


def test_records_are_what_clients_counted_whatever_was_killed(stack, supervisor):
    told = counted_through_chaos(stack)
    wait_until_all_are_ready(stack)
    found = wait_for_records(stack, told)
    records = {record[0]: record for record in found["records"]}
    assert len(records) == len(found["records"]), "a request has two records"
    finished = [one for one in told if one.usage is not None]
    assert len(finished) > len(VICTIMS)
    for one in finished:
        _, input_tokens, output_tokens, outcome, source = records[one.request_id]
        assert (input_tokens, output_tokens) == (one.usage["prompt_tokens"], one.usage["completion_tokens"]), one
        assert (outcome, source) == ("completed", "engine")
    for one in told:
        if one.usage is None and one.pieces:
            assert records[one.request_id][2] >= one.pieces, one
    assert found["summed"] == found["counted"]
    assert (found["missing"], found["quarantined"], found["mispriced"]) == (0, 0, 0)

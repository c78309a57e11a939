"""Every process of the stack, engines too, is killed with -9 while clients count tokens; then records are compared."""

import contextlib
import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections import defaultdict

import pytest

from deploy.local import pidfiles
from tests.support.counting_client import CountingClient
from workers.agent.engines.identity import is_running

pytestmark = [pytest.mark.integration, pytest.mark.timeout(560)]

DEPLOYMENT = "demo-chat-v1"
VICTIMS = (
    "valkey", "engine", "web", "engine", "postgres", "agent", "engine", "gateway", "controller", "postgres", "engines",
    "web", "gateway", "engine", "valkey", "agent",
)  # fmt: skip
BETWEEN_S = 2.5
CLIENTS_PER_TENANT = 2
TWO_REPLICAS = f"""
from django.utils.timezone import now
from apps.common.actors import SYSTEM
from apps.common.rows import every_tenant
from apps.deployments.models import Deployment
from apps.deployments.services.deployments import Change, change_deployment
with every_tenant():
    row = Deployment.objects.get(name="{DEPLOYMENT}")
    change_deployment(actor=SYSTEM, deployment=row, change=Change(replica_count=2), now=now())
"""
ENGINE_PORTS = 8  # as tests.support.stack keeps free
ENDED = ("stop", "length")
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
from apps.usage.services.rating import StoredRecord, rate_stored
with every_tenant():
    now = timezone.now()
    rows = list(UsageRecord.objects.filter(request_id__startswith="chaos-"))
    totals = sum_usage(scope=scope_for(actor=SYSTEM, start=now - timedelta(days=1), end=now + timedelta(days=1)))
    health = get_record_health(since=now - timedelta(days=1))
    names = ("request_id", "input_tokens", "output_tokens", "outcome", "usage_source", "attempts", "wasted_tokens")
    print("FOUND " + json.dumps({
        "records": [[getattr(row, name) for name in names] for row in rows],
        "summed": [totals.request_count, totals.input_tokens, totals.output_tokens, str(totals.cost_usd)],
        "counted": [
            UsageRecord.objects.count(), sum(row.input_tokens for row in UsageRecord.objects.all()),
            sum(row.output_tokens for row in UsageRecord.objects.all()),
            str(sum(row.cost_usd for row in UsageRecord.objects.all())),
        ],
        "missing": health.missing_count, "quarantined": health.quarantined_count,
        "mispriced": sum(
            rate_stored(StoredRecord._make(row), get_tariffs()).is_changed
            for row in UsageRecord.objects.filter(request_id__startswith="chaos-").values_list(*StoredRecord._fields)
        ),
    }))
"""


@pytest.fixture(scope="module")
def supervisor(stack):
    with stack.up() as running:
        stack.wait_until_ready(running, timeout_s=200)
        before = len(engines(stack))
        assert stack.command("manage", "shell", "-v", "0", "-c", TWO_REPLICAS).returncode == 0
        deadline = time.monotonic() + 90
        while len(engines(stack)) == before:
            assert time.monotonic() < deadline, stack.terminal()
            time.sleep(0.2)
        yield running


def process_of(stack, name):
    return next(one for one in stack.state.processes if one.name == name)


def engines(stack):
    """Those that have run longest first."""
    found = pidfiles.recorded(stack.layout.node)
    running = [one for name, one in found if name.startswith("engine-") and is_running(one)]
    return sorted(running, key=lambda one: one.start_ticks)


def pids_of(stack, name):
    if name == "engines":
        return [one.pid for one in engines(stack)]
    return [one.pid for one in (engines(stack)[:1] if name == "engine" else [process_of(stack, name)]) if one.pid]


def kill(stack, name, number=signal.SIGKILL):
    for pid in pids_of(stack, name):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


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


def ledgers(stack):
    """What the engines that still run did for each request, the latest last. A killed one took its own with it."""
    base = int(stack.environment["TOKENYARD_ENGINE_PORT_BASE"])
    found = defaultdict(list)
    for port in range(base, base + ENGINE_PORTS):
        with contextlib.suppress(urllib.error.URLError):
            answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/fake/requests", timeout=10).read()
            for entry in json.loads(answer)["requests"]:
                found[entry["request_id"]].append(entry)
    return {name: sorted(entries, key=lambda one: one["arrived_at"]) for name, entries in found.items()}


def counted_through_chaos(stack, victims=VICTIMS, between_s=BETWEEN_S, seed=0):
    demo = stack.demo
    clients = [
        CountingClient(number, url=demo["gateway_url"], key=tenant["api_key"], model=demo["model"], seed=seed)
        for number, tenant in enumerate(list(demo["tenants"].values()) * CLIENTS_PER_TENANT)
    ]
    for client in clients:
        client.start()
    for name in victims:
        time.sleep(between_s)
        kill(stack, name)
    time.sleep(between_s)
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


def check_engines(told, found, done):
    """Every token that an engine still answers for is in the record, as output or as waste; none is there twice."""
    records = {record[0]: record[1:] for record in found["records"]}
    seen = 0
    for one in told:
        entries = [entry for entry in done.get(one.request_id, ()) if entry["outcome"] in ENDED]
        if one.usage is None or not entries:
            continue
        seen += 1
        input_tokens, output_tokens, _, _, attempts, wasted_tokens = records[one.request_id]
        # An engine that continues is asked with what the ones before it made, behind the client's prompt.
        continued_tokens = entries[-1]["prompt_tokens"] - input_tokens
        assert continued_tokens + entries[-1]["completion_tokens"] == output_tokens, (one, entries)
        assert continued_tokens == 0 or attempts > 1, (one, entries)
        if one.is_stream and continued_tokens:
            assert wasted_tokens == 0, (one, entries)  # all that had come has gone out, and is paid for
    assert seen


def check(told, found):
    records = {record[0]: record[1:] for record in found["records"]}
    assert len(records) == len(found["records"]), "a request has two records"
    for one in told:
        if one.usage is not None:
            check_finished(one, records[one.request_id])
        elif one.tokens:
            assert records[one.request_id][1] >= one.tokens, (one, records[one.request_id])
    assert found["summed"] == found["counted"]
    assert (found["missing"], found["quarantined"], found["mispriced"]) == (0, 0, 0)


def check_finished(one, record):
    input_tokens, output_tokens, outcome, source, attempts, wasted_tokens = record
    counted = one.usage["prompt_tokens"], one.usage["completion_tokens"]
    assert (input_tokens, output_tokens) == counted, one
    assert (outcome, source) == ("completed", "engine")
    if one.is_stream:
        assert one.tokens == output_tokens, one
    if attempts == 1:
        assert wasted_tokens == 0, one


def test_records_are_what_clients_counted_whatever_was_killed(stack, supervisor):
    told = counted_through_chaos(stack)
    wait_until_all_are_ready(stack)
    found = wait_for_records(stack, told)
    assert sum(one.usage is not None for one in told) > len(VICTIMS)
    check(told, found)
    check_engines(told, found, ledgers(stack))

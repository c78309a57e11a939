"""What of an engine's log travels with telemetry."""

from types import SimpleNamespace

import pytest

from workers.agent.reporting.telemetry import TelemetrySource
from workers.contracts.telemetry import DiskReport, ReplicaReport

pytestmark = pytest.mark.unit


def a_source(log):
    files = SimpleNamespace(
        desired_generation=0, snapshot_generation=0, read_gateway_report=lambda _: None, take_decisions=list
    )
    gpus, disk = SimpleNamespace(sample=list), SimpleNamespace(sample=lambda _: DiskReport(free_bytes=5))
    return TelemetrySource("n1", "boot", files, gpus, disk, log_tail=lambda _, lines: log[-lines:])


def tail(source, state, now):
    report = ReplicaReport(replica_id="r1", state=state)
    return source.sample([report], now).replicas[0].log_tail


def test_an_engine_that_is_well_tells_the_end_of_its_log_when_it_has_changed_and_now_and_then():
    log = ["loaded"]
    source = a_source(log)
    assert [tail(source, "ready", now) for now in (0.0, 1.0, 2.0)] == [["loaded"], [], []]
    log.append("served")
    assert [tail(source, "ready", now) for now in (3.0, 4.0)] == [["loaded", "served"], []]
    assert tail(source, "ready", 40.0) == ["loaded", "served"]


def test_one_that_is_not_well_tells_it_each_time():
    source = a_source(["out of memory"])
    assert [tail(source, "starting", now) for now in (0.0, 1.0)] == [["out of memory"]] * 2

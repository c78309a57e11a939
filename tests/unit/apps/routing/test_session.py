from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest

from apps.routing.consumers.session import RETRY_S, LinkState, Newest, TelemetryNews
from workers.contracts.desired import DesiredState
from workers.contracts.link import DesiredPush, SnapshotPush, decode_to_agent
from workers.contracts.telemetry import AcceleratorReport, DiskReport, GatewayReport, NodeTelemetry, ReplicaReport

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
DESIRED = msgspec.json.encode(DesiredState(node_id="n", generation=3, fence=1))
NOTHING_NEW = TelemetryNews(replicas=None, gateway=None, accelerators=None, disk=None)
NEWEST = Newest(snapshot=(7, b'{"signature":"s","payload":{}}'), desired=(3, DESIRED))


def state():
    return LinkState(UUID(int=1))


def telemetry(snapshot=7, desired=3, sequence=1, **facts):
    return NodeTelemetry(
        node_id="n",
        boot_id="b",
        sequence=sequence,
        sampled_at=0.0,
        snapshot_generation=snapshot,
        desired_generation=desired,
        **facts,
    )


def pushed(link, newest, now_s):
    return [decode_to_agent(frame) for frame in link.frames_to_push(newest, now_s)]


def test_what_comes_twice_or_late_is_not_heard():
    link = state()
    link.heard(telemetry(sequence=8), NOW)
    assert [link.is_newer(telemetry(sequence=number)) for number in (7, 8, 9)] == [False, False, True]


def test_a_fresh_agent_gets_both():
    snapshot, desired = pushed(state(), NEWEST, 0.0)
    assert isinstance(snapshot, SnapshotPush)
    assert (snapshot.generation, bytes(snapshot.envelope)) == NEWEST.snapshot
    assert isinstance(desired, DesiredPush)
    assert desired.body.generation == 3


def test_an_agent_that_holds_the_newest_gets_nothing():
    link = state()
    link.heard(telemetry(), NOW)
    assert pushed(link, NEWEST, 0.0) == []


def test_a_lost_push_is_repeated_after_a_while_and_not_before():
    link = state()
    assert len(pushed(link, NEWEST, 100.0)) == 2
    link.heard(telemetry(snapshot=6, desired=3), NOW)
    assert pushed(link, NEWEST, 100.0 + RETRY_S - 0.1) == []
    assert [type(frame) for frame in pushed(link, NEWEST, 100.0 + RETRY_S)] == [SnapshotPush]


def test_a_newer_generation_does_not_wait():
    link = state()
    pushed(link, NEWEST, 100.0)
    newer = Newest(snapshot=(8, b"{}"), desired=NEWEST.desired)
    assert [frame.generation for frame in pushed(link, newer, 100.0)] == [8]


def test_nothing_yet_to_hold_is_nothing_to_push():
    assert pushed(state(), Newest(), 0.0) == []


def test_the_first_telemetry_is_all_news_and_its_repetition_none():
    link = state()
    report = telemetry(
        replicas=[ReplicaReport(replica_id="r", state="ready")],
        gateway=GatewayReport(gateway_id="g", boot_id="b", active_generation=7),
        accelerators=[AcceleratorReport(index=0, kind="cpu", name="c")],
    )
    first, second = link.telemetry_came(report, NOW), link.telemetry_came(report, NOW)
    assert (first.replicas, first.gateway, first.accelerators) == (report.replicas, report.gateway, report.accelerators)
    assert (second.replicas, second.gateway, second.accelerators) == (None, None, None)


def test_counters_that_move_are_not_news_for_postgres():
    link = state()
    link.telemetry_came(telemetry(gateway=GatewayReport(gateway_id="g", boot_id="b", active_generation=7)), NOW)
    later = GatewayReport(gateway_id="g", boot_id="b", active_generation=7, requests_total=5)
    assert link.telemetry_came(telemetry(gateway=later), NOW).gateway is None


def disk(free_gib, **weights):
    return telemetry(disk=DiskReport(free_bytes=int(free_gib * 1024**3), weights=weights))


def test_a_disk_is_news_when_weights_came_or_a_gibibyte_went_and_not_each_time_something_is_written():
    link = state()
    told = [disk(10), disk(9.9), disk(9.2), disk(9), disk(9, w=7), disk(9.1, w=7), disk(10, w=7), telemetry()]
    news = [link.telemetry_came(each, NOW).disk for each in told]
    assert [each and round(each.free_bytes / 1024**3, 1) for each in news] == [10, None, None, 9, 9, None, 10, None]


def test_a_disk_of_which_nothing_is_known_any_more_is_news():
    link = state()
    link.telemetry_came(disk(10), NOW)
    assert link.telemetry_came(telemetry(disk=DiskReport()), NOW).disk == DiskReport()


def test_a_replica_that_changed_state_is_news():
    link = state()
    link.telemetry_came(telemetry(replicas=[ReplicaReport(replica_id="r", state="warming")]), NOW)
    news = link.telemetry_came(telemetry(replicas=[ReplicaReport(replica_id="r", state="ready")]), NOW)
    assert [report.state for report in news.replicas] == ["ready"]


def test_a_heartbeat_is_worth_writing_again_after_5_seconds():
    link = state()
    assert link.heard(telemetry(), NOW)
    assert not link.heard(telemetry(), NOW + timedelta(seconds=4))
    assert link.heard(telemetry(), NOW + timedelta(seconds=5))


def test_after_a_failed_write_everything_is_news_again():
    link = state()
    report = telemetry(replicas=[ReplicaReport(replica_id="r", state="ready")])
    link.telemetry_came(report, NOW)
    link.forget_written()
    news = link.telemetry_came(report, NOW)
    assert link.heard(report, NOW)
    assert news.replicas is not None


def test_one_that_was_taken_for_silent_says_again_what_it_said_before_for_as_long_as_a_loop_may_forget_it():
    link = state()
    report = telemetry(replicas=[ReplicaReport(replica_id="r", state="ready")])
    link.telemetry_came(report, NOW)
    link.doubt_written(NOW)
    told = [link.telemetry_came(report, NOW + timedelta(seconds=each)).replicas is not None for each in (1, 4, 6)]
    assert told == [True, True, False]


def test_one_that_was_taken_for_silent_says_no_more_again_than_its_replicas():
    link = state()
    report = telemetry(
        disk=DiskReport(free_bytes=1), accelerators=[AcceleratorReport(index=0, kind="gpu", name="H100")]
    )
    link.telemetry_came(report, NOW)
    link.doubt_written(NOW)
    assert link.telemetry_came(report, NOW) == NOTHING_NEW


def test_a_node_that_runs_nothing_has_no_news_of_its_replicas():
    assert state().telemetry_came(telemetry(), NOW).replicas is None

import pytest

from apps.telemetry.policies import NodeFrame, Overview, Rates, overview_of, point_of, rates_between, with_tails
from workers.contracts.telemetry import GatewayReport, NodeTelemetry, ReplicaReport

pytestmark = pytest.mark.unit


def telemetry(gateway=None, replicas=(), sampled_at=0.0):
    return NodeTelemetry(
        node_id="n",
        boot_id="a",
        sequence=1,
        sampled_at=sampled_at,
        desired_generation=1,
        snapshot_generation=1,
        replicas=list(replicas),
        gateway=gateway,
    )


def gateway(boot_id="g1", **counters):
    return GatewayReport(gateway_id="g", boot_id=boot_id, active_generation=1, **counters)


def frame(received_at, rates=None, **facts):
    return NodeFrame(received_at=received_at, telemetry=telemetry(**facts), rates=rates or Rates())


def test_a_rate_is_the_difference_over_the_time_between():
    earlier = frame(10.0, gateway=gateway(requests_total=10, output_tokens_total=100, refused_total=1))
    later = telemetry(gateway(requests_total=14, output_tokens_total=300, refused_total=1, failed_total=2))
    rates = rates_between(earlier, later, 12.0)
    assert (rates.requests_per_s, rates.output_tokens_per_s, rates.failures_per_s) == (2.0, 100.0, 1.0)


@pytest.mark.parametrize(
    ("sampled_at", "received_at", "rate"),
    [(1001.0, 10.01, 4.0), (900.0, 12.0, 2.0), (1000.0, 12.0, 2.0), (9000.0, 12.0, 2.0), (1004.0, 11.0, 1.0)],
)
def test_what_a_line_held_back_and_let_go_at_once_is_no_rush_and_a_clock_that_was_set_no_rest(
    sampled_at, received_at, rate
):
    earlier = frame(10.0, gateway=gateway(requests_total=10), sampled_at=1000.0)
    later = telemetry(gateway(requests_total=14), sampled_at=sampled_at)
    assert rates_between(earlier, later, received_at).requests_per_s == rate


def test_rates_are_unknown_after_a_restart_of_the_gateway():
    earlier = frame(10.0, gateway=gateway("g1", requests_total=10))
    assert rates_between(earlier, telemetry(gateway("g2", requests_total=11)), 11.0) == Rates()


@pytest.mark.parametrize(
    ("earlier", "later", "at"),
    [
        (None, telemetry(gateway()), 1.0),
        (frame(0.0), telemetry(gateway()), 1.0),
        (frame(0.0, gateway=gateway()), telemetry(), 1.0),
        (frame(1.0, gateway=gateway()), telemetry(gateway()), 1.0),
    ],
)
def test_rates_are_unknown_without_two_samples(earlier, later, at):
    assert rates_between(earlier, later, at) == Rates()


def test_a_counter_that_fell_gives_no_negative_rate():
    earlier = frame(10.0, gateway=gateway(requests_total=10))
    assert rates_between(earlier, telemetry(gateway(requests_total=9)), 11.0).requests_per_s is None


def test_a_fleet_that_nobody_has_heard_of_is_unknown_and_not_idle():
    assert overview_of([], 10.0) == Overview(at=10.0, nodes_reporting=0, nodes_stale=0)
    assert overview_of([], 10.0).running_requests is None


def test_stale_frames_are_counted_and_left_out():
    fresh = frame(100.0, gateway=gateway(running_requests=2), rates=Rates(requests_per_s=1.0))
    stale = frame(90.0, gateway=gateway(running_requests=50), rates=Rates(requests_per_s=9.0))
    overview = overview_of([fresh, stale], 101.0)
    assert (overview.nodes_reporting, overview.nodes_stale) == (1, 1)
    assert (overview.running_requests, overview.requests_per_s) == (2, 1.0)


def test_the_overview_adds_queues_and_takes_the_slowest_ttft():
    one = frame(1.0, gateway=gateway(queued_by_class={"gold": 1}, queued_requests=1, ttft_ms_p95=80.0))
    two = frame(1.0, gateway=gateway(queued_by_class={"gold": 2, "batch": 3}, queued_requests=5, ttft_ms_p95=None))
    overview = overview_of([one, two], 1.0)
    assert overview.queued_by_class == {"gold": 3, "batch": 3}
    assert (overview.queued_requests, overview.ttft_ms_p95, overview.ttft_ms_p50) == (6, 80.0, None)


def test_engines_are_counted_and_their_kv_use_averaged_where_known():
    replicas = [
        ReplicaReport(replica_id="a", state="ready", kv_used_ratio=0.2),
        ReplicaReport(replica_id="b", state="ready", kv_used_ratio=None),
        ReplicaReport(replica_id="c", state="failed"),
    ]
    overview = overview_of([frame(1.0, replicas=replicas)], 1.0)
    assert (overview.engines_ready, overview.engines_total, overview.kv_used_ratio) == (2, 3, 0.2)


def test_a_point_is_what_the_overview_of_its_second_says():
    point = point_of(overview_of([frame(5.0, gateway=gateway(running_requests=4))], 5.5))
    assert (point.at, point.running_requests) == (5.5, 4)


def test_a_point_without_a_gateway_is_unknown():
    assert point_of(overview_of([frame(5.0)], 5.0)).running_requests is None


def test_the_end_of_a_log_stays_until_another_is_told():
    def telemetry(*tail):
        report = ReplicaReport(replica_id="r1", state="ready", log_tail=list(tail))
        return NodeTelemetry(
            node_id="n1", boot_id="b", sequence=1, sampled_at=0, desired_generation=0, snapshot_generation=0,
            replicas=[report],
        )  # fmt: skip

    before = NodeFrame(received_at=0, telemetry=telemetry("loaded"))
    assert with_tails(telemetry(), before).replicas[0].log_tail == ["loaded"]
    assert with_tails(telemetry("served"), before).replicas[0].log_tail == ["served"]
    assert with_tails(telemetry(), None).replicas[0].log_tail == []

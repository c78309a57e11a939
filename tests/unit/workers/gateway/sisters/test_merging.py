import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.contracts.telemetry import GatewayReport, SchedulerReport, TenantQueue
from workers.gateway.observing.exposition import render
from workers.gateway.observing.metrics import RequestMetrics
from workers.gateway.sisters.merging import (
    TOTALS,
    add_totals,
    counted,
    merge_families,
    merge_reports,
    read_exposition,
    totals_of,
    write_exposition,
)

pytestmark = pytest.mark.unit


def report(boot_id="b1", **changes):
    fields = {"gateway_id": "g", "boot_id": boot_id, "active_generation": 7, "queued_by_class": {"gold": 1}} | changes
    return GatewayReport(**fields)


def page(**changes):
    return read_exposition(render(report(**changes), RequestMetrics()))


def values(families):
    return {sample: value for family in families.values() for sample, value in family.samples.items()}


def test_a_page_is_written_as_it_was_read():
    text = render(report(ttft_ms_p50=12.5), RequestMetrics())
    assert read_exposition(write_exposition(read_exposition(text))) == read_exposition(text)


def test_what_counts_something_is_added_and_of_the_rest_the_worst_is_shown():
    merged = values(
        merge_families(
            [
                page(running_requests=2, endpoints_up=1, ttft_ms_p95=10.0, active_generation=7, is_stopping=True),
                page(running_requests=3, endpoints_up=2, ttft_ms_p95=30.5, active_generation=6),
            ]
        )
    )
    expected = {
        "running_requests": 5,
        "endpoints_up": 3,
        "ttft_ms_p95": 30.5,
        "active_generation": 6,
        "is_stopping": 1,
        'queued_requests_by_class{service_class="gold"}': 2,
    }
    assert {name: merged[f"tokenyard_gateway_{name}"] for name in expected} == expected


def test_of_a_process_that_has_died_what_it_counted_stays_and_what_it_had_does_not():
    text = "# TYPE a counter\na 3\n# TYPE b gauge\nb 4\n# TYPE c histogram\nc_sum 5\nc_count 1\n"
    assert values(counted(read_exposition(text))) == {"a": 3, "c_sum": 5, "c_count": 1}


@given(st.lists(st.dictionaries(st.sampled_from(TOTALS), st.integers(0, 10**9)), max_size=4))
def test_totals_are_those_of_all_that_live_and_of_all_that_have_died(counts):
    reports = [report(boot_id=str(number), **each) for number, each in enumerate(counts)]
    gone = {}
    for one in reports[1:]:
        gone = add_totals(gone, totals_of(one))
    alive = merge_reports("g", "b", reports, {})
    after = merge_reports("g", "b", reports[:1], gone)
    assert totals_of(alive) == totals_of(after)
    assert alive.boot_id == "b"


def test_tenants_of_two_processes_are_one_line_each():
    queues = [TenantQueue(tenant_id="t", service_class="gold", queued=1, running=2)]
    reports = [report(scheduler=SchedulerReport(tenants=queues)) for _ in range(2)]
    [merged] = merge_reports("g", "b", reports, {}).scheduler.tenants
    assert (merged.queued, merged.running) == (2, 4)


def test_of_no_process_nothing_is_known():
    nothing = merge_reports("g", "b", [], {})
    assert (nothing.active_generation, nothing.ttft_ms_p50, nothing.requests_total) == (0, None, 0)

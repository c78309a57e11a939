import random

import pytest

from workers.gateway.tracing.assembly import config_from_environment
from workers.gateway.tracing.context import begin_trace, continue_trace
from workers.gateway.tracing.exporter import Collector

pytestmark = pytest.mark.unit

PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def bits(seed=1):
    return random.Random(seed).getrandbits  # noqa: S311 - ids of a test


def test_a_trace_goes_on_with_spans_of_its_own():
    context = continue_trace(PARENT, bits())
    assert (context.trace_id, context.parent_id) == ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
    assert context.for_engine == f"00-{context.trace_id}-{context.dispatch_id}-01".encode()
    assert context.request_id != context.dispatch_id


@pytest.mark.parametrize(("flags", "is_sampled"), [(b"00", False), (b"01", True), (b"02", False), (b"03", True)])
def test_who_began_it_decides_whether_it_is_sampled(flags, is_sampled):
    assert continue_trace(PARENT[:-2] + flags, bits()).is_sampled is is_sampled


def test_a_later_version_of_the_header_is_read_as_this_one():
    assert continue_trace(b"01" + PARENT[2:] + b"-more-to-come", bits()).is_sampled


def test_of_new_traces_a_ratio_is_sampled_by_their_id():
    draw = bits(7)
    parents = [b"00-%032x-%016x-01" % (draw(128), draw(64)) for _ in range(2000)]
    sampled = [begin_trace(parent, 0.25, draw).is_sampled for parent in parents]
    assert 400 < sum(sampled) < 600
    assert sampled == [begin_trace(parent, 0.25, draw).is_sampled for parent in parents]
    assert not any(begin_trace(parent, 0.0, draw).is_sampled for parent in parents)
    assert all(begin_trace(parent, 1.0, draw).is_sampled for parent in parents)


def test_no_collector_is_named_no_traces_are_made():
    assert config_from_environment({}) is None
    assert config_from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}) is None


def test_opentelemetrys_own_variables_are_read():
    config = config_from_environment(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://one:4318",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://two:4318/v1/traces",
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer x=y, b = c,nonsense",
            "OTEL_TRACES_SAMPLER_ARG": "0.1",
        }
    )
    assert config.url == "http://two:4318/v1/traces"
    assert config.headers == {"authorization": "Bearer x=y", "b": "c"}
    assert config.ratio == 0.1


@pytest.mark.parametrize("ratio", ["2", "-1", "much", "nan"])
def test_a_ratio_that_is_none_is_refused_at_the_start(ratio):
    with pytest.raises(ValueError, match=r"SAMPLER_ARG|convert"):
        config_from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_SAMPLER_ARG": ratio})


@pytest.mark.parametrize("url", ["collector:4318", "ftp://c", "http://"])
def test_an_address_that_is_none_is_refused_at_the_start(url):
    with pytest.raises(ValueError, match="must be"):
        Collector(url)

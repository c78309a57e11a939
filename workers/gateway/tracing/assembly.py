"""The parts of tracing, put together for a gateway."""

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from workers.gateway.observing.metrics import SpanCounts
from workers.gateway.tracing.exporter import Collector, Exporter
from workers.gateway.tracing.tracer import Tracer


class TracingConfig(Struct, frozen=True, kw_only=True):
    """`url` and `headers` are the collector's; `ratio` is the share of those traces that begin here which are sent."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)
    ratio: float = 1.0


class Tracing:
    def __init__(
        self,
        config: TracingConfig,
        counts: SpanCounts,
        *,
        gateway_id: str,
        monotonic: Callable[[], float],
        random_bits: Callable[[int], int],
    ) -> None:
        self.exporter = Exporter(Collector(config.url, config.headers), counts, gateway_id=gateway_id)
        self.tracer = Tracer(self.exporter.add, ratio=config.ratio, monotonic=monotonic, random_bits=random_bits)


def config_from_environment(environment: Mapping[str, str]) -> TracingConfig | None:
    """OpenTelemetry's own variables; None when they name no collector."""
    url = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    if not url or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    headers = environment.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or environment.get("OTEL_EXPORTER_OTLP_HEADERS", "")
    pairs = [pair.partition("=") for pair in headers.split(",") if "=" in pair]
    return TracingConfig(
        url=url,
        headers={name.strip(): value.strip() for name, _, value in pairs},
        ratio=_ratio(environment.get("OTEL_TRACES_SAMPLER_ARG", "1")),
    )


def _ratio(text: str) -> float:
    ratio = float(text)
    if not 0 <= ratio <= 1:
        raise ValueError(f"OTEL_TRACES_SAMPLER_ARG must be from 0 to 1, not {text}")
    return ratio

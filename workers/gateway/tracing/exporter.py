"""Sends spans to a collector over OTLP/HTTP, on a thread of its own: no request waits for a collector.

What a collector does not take in time is dropped and counted: traces are never worth memory without end.
"""

import contextlib
import logging
from collections import deque
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Event, Thread
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from workers.contracts.usage import UsageRecord
from workers.gateway.observing.metrics import SpanCounts
from workers.gateway.tracing.context import TraceContext
from workers.gateway.tracing.spans import Span, attribute_list, spans_of

logger = logging.getLogger(__name__)

MAX_WAITING = 4096
MAX_REQUESTS_PER_BATCH = 128
SEND_EVERY_S = 1.0
TIMEOUT_S = 5.0
MAX_TRIES = 3
MAX_RETRY_AFTER_S = 10.0
_TRACES_PATH = "/v1/traces"
# https://opentelemetry.io/docs/specs/otlp/#failures-1
_MAY_RETRY = frozenset((429, 502, 503, 504))
_OK = 200


class Finished(Struct, frozen=True):
    """A request that has ended. `received_ms` as spans_of has it."""

    record: UsageRecord
    context: TraceContext
    received_ms: float


class Collector:
    """Where spans go. `url` is OTLP's base, or the whole address of its traces if it ends in /v1/traces."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the collector's address must be http://host:port, not {url!r}")
        path = parts.path.rstrip("/")
        self._path = path if path.endswith(_TRACES_PATH) else path + _TRACES_PATH
        self._connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port = parts.hostname, parts.port
        self._headers = {"content-type": "application/json", **(headers or {})}

    def post(self, body: bytes) -> tuple[int, float]:
        """The status, and how many seconds to wait if it may be tried again. Raises OSError or HTTPException."""
        connection = self._connect(self._host, self._port, timeout=TIMEOUT_S)
        try:
            connection.request("POST", self._path, body, self._headers)
            response = connection.getresponse()
            response.read(64 * 1024)
            return response.status, _retry_after_s(response)
        finally:
            connection.close()


class Exporter:
    def __init__(self, collector: Collector, counts: SpanCounts, *, gateway_id: str) -> None:
        self._collector = collector
        self._counts = counts
        self._resource = attribute_list({"service.name": "tokenyard-gateway", "service.instance.id": gateway_id})
        self._waiting: deque[Finished] = deque()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="traces", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Sends what waits, once; may take as long as one time-out."""
        self._stopping.set()
        self._thread.join(timeout=TIMEOUT_S + 1)

    def add(self, finished: Finished) -> None:
        """From the gateway's loop."""
        if len(self._waiting) >= MAX_WAITING:
            self._counts.dropped += 1
        else:
            self._waiting.append(finished)

    def _run(self) -> None:
        while not self._stopping.wait(SEND_EVERY_S):
            self._send_all()
        self._send_all()

    def _send_all(self) -> None:
        while self._waiting:
            batch: list[Finished] = []
            with contextlib.suppress(IndexError):
                while len(batch) < MAX_REQUESTS_PER_BATCH:
                    batch.append(self._waiting.popleft())
            try:
                self._send([span for one in batch for span in spans_of(one.record, one.context, one.received_ms)])
            except Exception:
                logger.exception("spans were lost")

    def _send(self, spans: list[Span]) -> None:
        body = encode(spans, self._resource)
        for number in range(MAX_TRIES):
            is_last = number == MAX_TRIES - 1 or self._stopping.is_set()
            wait_s = self._try(body, is_last=is_last)
            if wait_s is None:
                self._counts.sent += len(spans)
                return
            if is_last or wait_s < 0:
                break
            self._stopping.wait(wait_s or 0.5 * 2**number)
        self._counts.dropped += len(spans)

    def _try(self, body: bytes, *, is_last: bool) -> float | None:
        """None when it was taken; else seconds to wait: 0 is as we like, below 0 there is no use in trying again."""
        try:
            status, retry_after_s = self._collector.post(body)
        except (OSError, HTTPException) as error:
            if is_last:
                logger.warning("the collector cannot be reached: %s", error)
            return 0.0
        if status == _OK:
            return None
        if is_last or status not in _MAY_RETRY:
            logger.warning("the collector answered %s", status)
        return retry_after_s if status in _MAY_RETRY else -1.0


def encode(spans: list[Span], resource: list[dict[str, object]]) -> bytes:
    scope = {"scope": {"name": "tokenyard.gateway"}, "spans": spans}
    return msgspec.json.encode({"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [scope]}]})


def _retry_after_s(response: HTTPResponse) -> float:
    given = response.headers.get("retry-after", "")
    return min(float(given), MAX_RETRY_AFTER_S) if given.isascii() and given.isdigit() else 0.0

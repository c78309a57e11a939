"""A line of JSON per request, for those who want it: who, what, how it ended, how long it took. No prompt, no key."""

from collections.abc import Callable

import msgspec

from workers.contracts.usage import UsageRecord

_FIELDS = (
    "arrived_at",
    "request_id",
    "tenant_id",
    "key_id",
    "path",
    "public_model",
    "service_class",
    "endpoint_id",
    "is_stream",
    "status",
    "outcome",
    "error_code",
    "attempts",
    "input_tokens",
    "output_tokens",
    "queue_ms",
    "ttft_ms",
    "total_ms",
)


class AccessLog:
    """`write` gets a whole line."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def observe(self, record: UsageRecord) -> None:
        line = {name: getattr(record, name) for name in _FIELDS}
        self._write(msgspec.json.encode(line).decode() + "\n")

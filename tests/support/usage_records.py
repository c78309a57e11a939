"""Usage records, and spool segments of them, as a gateway writes them."""

from pathlib import Path
from typing import Any

import msgspec

from workers.contracts.spool import segment_name
from workers.contracts.usage import UsageRecord


def usage_record(number: int, **changes: Any) -> UsageRecord:
    fields: dict[str, Any] = {
        "record_id": f"record-{number}",
        "gateway_id": "gateway-1",
        "boot_id": "boot-1",
        "sequence": number,
        "request_id": f"request-{number}",
        "arrived_at": 1.0,
        "tenant_id": "tenant-1",
        "key_id": "key-1",
        "user_id": "",
        "end_user": "",
        "path": "/v1/completions",
        "public_model": "demo",
        "version_id": "version-1",
        "deployment_id": "deployment-1",
        "endpoint_id": "replica-1",
        "node_id": "node-1",
        "service_class": "gold",
        "is_stream": False,
        "status": 200,
        "outcome": "completed",
        "usage_source": "engine",
        "input_tokens": 3,
        "cached_input_tokens": 0,
        "output_tokens": 5,
        "queue_ms": 1.0,
        "ttft_ms": 2.0,
        "total_ms": 3.0,
        "cost_pico_usd": 7,
    }
    return UsageRecord(**(fields | changes))


def write_segment(directory: Path, boot_id: str, first: int, count: int, tail: bytes = b"") -> Path:
    """A segment with records `first` to `first + count - 1`, and `tail` after the last line feed."""
    path = directory / segment_name(boot_id, first)
    lines = [msgspec.json.encode(usage_record(number)) + b"\n" for number in range(first, first + count)]
    path.write_bytes(b"".join(lines) + tail)
    return path

"""Files, batches and their items: as they are kept, and as OpenAI's API shows them."""

from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from workers.contracts.usage import UsageRecord

Status = Literal["validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"]
UNFINISHED: tuple[Status, ...] = ("validating", "in_progress", "finalizing", "cancelling")
COMPLETION_WINDOW = "24h"
COMPLETION_WINDOW_S = 24 * 3600


class StoredFile(Struct, frozen=True, kw_only=True):
    """`size_bytes` of content under its id; times in Unix seconds."""

    file_id: str
    tenant_id: str
    purpose: str
    filename: str
    size_bytes: int
    created_at: int
    expires_at: int | None = None

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.file_id,
            "object": "file",
            "bytes": self.size_bytes,
            "created_at": self.created_at,
            "expires_at": self.expires_at,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": "processed",
            "status_details": None,
        }


class LineError(Struct, frozen=True):
    """`line` counts from 1; None where the file as a whole is wrong."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None


class Counts(Struct, frozen=True):
    total: int = 0
    completed: int = 0
    failed: int = 0


class Batch(Struct, frozen=True, kw_only=True):
    """It acts for the key that created it. Times in Unix seconds, None before they came."""

    batch_id: str
    tenant_id: str
    key_id: str
    endpoint: str
    input_file_id: str
    created_at: int
    expires_at: int
    status: Status = "validating"
    in_progress_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    output_expires_after_s: int | None = None
    counts: Counts = Counts()
    errors: list[LineError] = field(default_factory=list)
    metadata: dict[str, str] | None = None

    @property
    def is_finished(self) -> bool:
        return self.status not in UNFINISHED

    @property
    def has_all_answers(self) -> bool:
        return self.counts.completed + self.counts.failed >= self.counts.total

    def moved(self, status: Status, now: float, **changes: Any) -> "Batch":
        """In another state, with the time at which it came there."""
        stamp = {} if status == "validating" else {f"{status}_at": int(now)}
        return msgspec.structs.replace(self, status=status, **stamp, **changes)

    def shown(self) -> dict[str, Any]:
        times = {name: getattr(self, name) for name in _TIMES}
        return {
            "id": self.batch_id,
            "object": "batch",
            "endpoint": self.endpoint,
            "errors": {"object": "list", "data": msgspec.to_builtins(self.errors)} if self.errors else None,
            "input_file_id": self.input_file_id,
            "completion_window": COMPLETION_WINDOW,
            "status": self.status,
            "output_file_id": self.output_file_id,
            "error_file_id": self.error_file_id,
            **times,
            "request_counts": msgspec.to_builtins(self.counts),
            "metadata": self.metadata,
        }


_TIMES = (
    "created_at",
    "in_progress_at",
    "expires_at",
    "finalizing_at",
    "completed_at",
    "failed_at",
    "expired_at",
    "cancelling_at",
    "cancelled_at",
)


class Item(Struct, frozen=True):
    """A request of a batch: line `number` (from 0) of its file. `body` is what is sent."""

    number: int
    custom_id: str
    body: bytes


class Place(Struct, frozen=True):
    """Where an item stands in its input file."""

    number: int
    custom_id: str
    start: int
    length_bytes: int


class AnsweredItem(Struct, frozen=True):
    """`line` goes into the output file, or into that of errors if `is_failed`. `record` is None when none is due."""

    batch_id: str
    number: int
    line: bytes
    is_failed: bool
    record: UsageRecord | None

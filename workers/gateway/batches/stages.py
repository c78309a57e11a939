"""What happens to a batch as a whole: its input is checked, and its answers become files."""

import asyncio
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import BinaryIO

from workers.contracts.usage import UsageRecord
from workers.gateway.batches.database import write_durably
from workers.gateway.batches.errands import ids_of
from workers.gateway.batches.lines import InputCheck, error_line, read_lines
from workers.gateway.batches.places import node_tag
from workers.gateway.batches.shapes import AnsweredItem, Batch, Counts, Item, LineError, Status, StoredFile
from workers.gateway.batches.store import Store

FILE_LIFETIME_S = 30 * 24 * 3600
_NEVER_RAN = {
    "expired": ("batch_expired", "This request could not be executed before the completion window expired."),
    "cancelled": ("batch_cancelled", "The batch was cancelled before this request executed."),
}


def open_input(store: Store, batch: Batch) -> BinaryIO | None:
    """None when the file is gone."""
    try:
        return store.path_of(batch.input_file_id).open("rb")
    except FileNotFoundError:
        return None


async def check_input(content: BinaryIO | None, endpoint: str, may_use: Callable[[str], bool] | None) -> InputCheck:
    """A part of it at a time, between which others have their turn. `may_use` is None when the batch's key is gone."""
    check = InputCheck(endpoint, may_use or _nothing)
    if content is None:
        check.errors.append(LineError("input_file_not_found", "The input file is gone.", "input_file_id"))
    if may_use is None:
        check.errors.append(LineError("invalid_api_key", "The key that created the batch is revoked or expired."))
    if content is None:
        return check
    with content:
        while may_use is not None and not check.is_over and (lines := await asyncio.to_thread(read_lines, content)):
            check.check_all(lines)
    if may_use is not None:
        check.finish()
    return check


def begin(store: Store, batch: Batch, check: InputCheck, now: float) -> None:
    if check.errors:
        store.move(batch.moved("failed", now, errors=check.errors))
    else:
        store.begin(batch.moved("in_progress", now, counts=Counts(total=len(check.places))), check.places)


def finish(store: Store, batch: Batch, status: Status, now: float) -> None:
    """May be cut short at any point and done again: the files' ids are the batch's own."""
    unanswered = store.places_without_answer(batch.batch_id)
    output = _write_file(store, batch, "output", store.lines_of(batch.batch_id, is_failed=False), now)
    error = _write_file(store, batch, "error", _error_lines(store, batch, status, unanswered), now)
    counts = batch.counts
    finished = batch.moved(
        status,
        now,
        output_file_id=output.file_id if output else None,
        error_file_id=error.file_id if error else None,
        counts=Counts(counts.total, counts.completed, counts.failed + len(unanswered)),
    )
    store.finish(finished, [file for file in (output, error) if file is not None])


def withdrawn(batch: Batch, item: Item, status: Status, record: UsageRecord) -> AnsweredItem:
    """It was executed, and has no answer."""
    code, _ = _NEVER_RAN[status]
    message = "The batch ended while this request was executed."
    line = error_line(ids_of(batch, item.number).item_id, item.custom_id, code=code, message=message)
    return AnsweredItem(batch.batch_id, item.number, line, True, record)


def _write_file(store: Store, batch: Batch, kind: str, lines: Iterator[bytes], now: float) -> StoredFile | None:
    """None of no lines."""
    digest = sha256(f"{batch.batch_id}/{kind}".encode()).hexdigest()
    file_id = f"file-{node_tag(batch.batch_id)}{digest[:24]}"
    size_bytes = write_durably(store.path_of(file_id), lines)
    if not size_bytes:
        store.path_of(file_id).unlink()
        return None
    return StoredFile(
        file_id=file_id,
        tenant_id=batch.tenant_id,
        purpose="batch_output",
        filename=f"{batch.batch_id}_{kind}.jsonl",
        size_bytes=size_bytes,
        created_at=int(now),
        expires_at=int(now) + (batch.output_expires_after_s or FILE_LIFETIME_S),
    )


def _error_lines(store: Store, batch: Batch, status: Status, unanswered: list[tuple[int, str]]) -> Iterator[bytes]:
    yield from store.lines_of(batch.batch_id, is_failed=True)
    if unanswered:
        code, message = _NEVER_RAN[status]
        for number, custom_id in unanswered:
            yield error_line(ids_of(batch, number).item_id, custom_id, code=code, message=message)


def _nothing(model: str) -> bool:
    del model
    return False

"""Files and batches on disk: what is said of them in SQLite, their contents in a folder beside it.

Content is on the disk before its row is, and a row goes before its content: what a crash leaves is content without a
row, which the next start removes. Every method is one transaction, durable when it returns. One thread at a time.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from workers.contracts import layout
from workers.contracts.usage import UsageRecord
from workers.gateway.batches.database import Database
from workers.gateway.batches.lines import item_at
from workers.gateway.batches.shapes import UNFINISHED, AnsweredItem, Batch, Counts, Item, Place, StoredFile

LOADED_BYTES = 8 * 1024 * 1024
BATCH_LIFETIME_S = 90 * 24 * 3600
STRAY_S = 3600  # longer than any file takes to be written
_UNFINISHED = ", ".join(f"'{status}'" for status in UNFINISHED)
_decode_file = msgspec.json.Decoder(StoredFile).decode
_decode_batch = msgspec.json.Decoder(Batch).decode
_decode_record = msgspec.json.Decoder(UsageRecord).decode


class Store:
    def __init__(self, directory: Path) -> None:
        self._contents = directory / "files"
        self._contents.mkdir(parents=True, exist_ok=True)
        self._database = Database(directory / "batches.sqlite")
        self._lock = (directory / "lock").open("w")

    def close(self) -> None:
        self._database.close()
        self._lock.close()

    def may_run(self) -> bool:
        """Whether this process is the one that runs batches, from now on until it leaves that or ends."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def leave_running(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def path_of(self, file_id: str) -> Path:
        return self._contents / file_id

    # -- files

    def adopt_file(self, file: StoredFile, arrived: Path) -> None:
        """Whose content is on the disk, beside the others, under another name."""
        arrived.replace(self.path_of(file.file_id))
        layout.sync_directory(self._contents)
        with self._database.transaction():
            self._insert_file(file)

    def get_file(self, tenant_id: str, file_id: str) -> StoredFile | None:
        found = self._database.one("SELECT content FROM files WHERE file_id = ? AND tenant_id = ?", file_id, tenant_id)
        return _decode_file(found[0]) if found else None

    def list_files(
        self, tenant_id: str, *, purpose: str, after: str, bound: int | None, limit: int, newest_first: bool
    ) -> list[StoredFile] | None:
        """None when there is no file `after`; `purpose` "" is all; those made on this side of the second `bound`."""
        rows = self._database.page(
            "files", tenant_id, after=after, bound=bound, limit=limit, newest_first=newest_first, purpose=purpose
        )
        return None if rows is None else [_decode_file(content) for content in rows]

    def kept_by(self, tenant_id: str) -> tuple[int, int]:
        """How many files, and how many bytes together."""
        found = self._database.one(
            "SELECT COUNT(*), COALESCE(SUM(size_bytes), 0) FROM files WHERE tenant_id = ?", tenant_id
        )
        return (found[0], found[1]) if found else (0, 0)

    def is_in_use(self, file_id: str) -> bool:
        sql = f"SELECT 1 FROM batches WHERE status IN ({_UNFINISHED}) AND input_file_id = ?"  # noqa: S608 - our words
        return self._database.one(sql, file_id) is not None

    def delete_file(self, file_id: str) -> None:
        with self._database.transaction():
            self._database.execute("DELETE FROM files WHERE file_id = ?", (file_id,))
        self.path_of(file_id).unlink(missing_ok=True)

    def delete_expired(self, now: float) -> None:
        """Also content without a row, as a crash leaves it, and batches that nobody has asked for in a long time."""
        rows = self._database.execute("SELECT file_id FROM files WHERE expires_at <= ? LIMIT 100", (int(now),))
        for (file_id,) in rows.fetchall():
            if not self.is_in_use(file_id):
                self.delete_file(file_id)
        self._delete_strays(now)
        sql = f"DELETE FROM batches WHERE status NOT IN ({_UNFINISHED}) AND created_at < ?"  # noqa: S608 - our words
        with self._database.transaction():
            self._database.execute(sql, (int(now - BATCH_LIFETIME_S),))

    def _delete_strays(self, now: float) -> None:
        known = {file_id for (file_id,) in self._database.execute("SELECT file_id FROM files")}
        for path in self._contents.iterdir():
            if path.name not in known and now - path.stat().st_mtime > STRAY_S:
                path.unlink(missing_ok=True)

    # -- batches

    def save_batch(self, batch: Batch) -> None:
        with self._database.transaction():
            self._save(batch)

    def get_batch(self, tenant_id: str, batch_id: str) -> Batch | None:
        found = self._database.one(
            "SELECT content FROM batches WHERE batch_id = ? AND tenant_id = ?", batch_id, tenant_id
        )
        return _decode_batch(found[0]) if found else None

    def list_batches(
        self, tenant_id: str, *, purpose: str, after: str, bound: int | None, limit: int, newest_first: bool
    ) -> list[Batch] | None:
        """As of files; batches have no purpose."""
        del purpose
        rows = self._database.page(
            "batches", tenant_id, after=after, bound=bound, limit=limit, newest_first=newest_first
        )
        return None if rows is None else [_decode_batch(content) for content in rows]

    def list_unfinished(self) -> list[Batch]:
        """Oldest first."""
        sql = f"SELECT content FROM batches WHERE status IN ({_UNFINISHED}) ORDER BY number"  # noqa: S608 - our words
        return [_decode_batch(content) for (content,) in self._database.execute(sql)]

    def unfinished_of(self, tenant_id: str) -> int:
        sql = f"SELECT COUNT(*) FROM batches WHERE status IN ({_UNFINISHED}) AND tenant_id = ?"  # noqa: S608 - our words
        found = self._database.one(sql, tenant_id)
        return found[0] if found else 0

    def cancel(self, tenant_id: str, batch_id: str, now: float) -> Batch | None:
        """The batch as it is then: one that is being finished is left to finish."""
        with self._database.transaction():
            batch = self.get_batch(tenant_id, batch_id)
            if batch is not None and batch.status in ("validating", "in_progress"):
                batch = batch.moved("cancelling", now)
                self._save(batch)
        return batch

    def move(self, batch: Batch) -> bool:
        """Saves it, unless it was cancelled meanwhile."""
        with self._database.transaction():
            found = self.get_batch(batch.tenant_id, batch.batch_id)
            was_cancelled = found is not None and found.status == "cancelling" and batch.cancelling_at is None
            if not was_cancelled:
                self._save(batch)
        return not was_cancelled

    # -- items

    def begin(self, batch: Batch, places: Sequence[Place]) -> bool:
        """Its items are known from now on; False when it was cancelled meanwhile."""
        with self._database.transaction():
            self._database.execute_many(
                "INSERT OR REPLACE INTO items (batch_id, number, custom_id, start, length_bytes)"
                " VALUES (?, ?, ?, ?, ?)",
                [(batch.batch_id, *msgspec.structs.astuple(place)) for place in places],
            )
            found = self.get_batch(batch.tenant_id, batch.batch_id)
            is_wanted = found is not None and found.status == "validating"
            if is_wanted:
                self._save(batch)
            elif found is not None:
                self._save(msgspec.structs.replace(found, counts=batch.counts))
        return is_wanted

    def pending_items(self, batch: Batch, *, after: int, limit: int) -> list[Item]:
        """Those without an answer whose number is above `after`, in their order."""
        sql = (
            "SELECT number, custom_id, start, length_bytes FROM items"
            " WHERE batch_id = ? AND number > ? AND line IS NULL ORDER BY number LIMIT ?"
        )
        places = [Place(*row) for row in self._database.execute(sql, (batch.batch_id, after, limit))]
        if not places:
            return []
        fitting = _that_fit(places)
        with self.path_of(batch.input_file_id).open("rb") as file:
            return [item_at(place, _read_at(file.fileno(), place)) for place in fitting]

    def keep_answers(self, answers: Iterable[AnsweredItem]) -> None:
        """An item that is answered already keeps its first answer."""
        with self._database.transaction():
            for answer in answers:
                self._keep(answer)

    def unrecorded(self, limit: int) -> list[tuple[str, int, UsageRecord]]:
        """(batch, item, its record) of those that may not have reached the spool."""
        sql = "SELECT batch_id, number, record FROM items WHERE record IS NOT NULL LIMIT ?"
        rows = self._database.execute(sql, (limit,))
        return [(batch_id, number, _decode_record(record)) for batch_id, number, record in rows]

    def note_recorded(self, items: Sequence[tuple[str, int]]) -> None:
        """Their records are in the spool."""
        with self._database.transaction():
            self._database.execute_many("UPDATE items SET record = NULL WHERE batch_id = ? AND number = ?", items)

    def has_unrecorded(self, batch_id: str) -> bool:
        return self._database.one("SELECT 1 FROM items WHERE record IS NOT NULL AND batch_id = ?", batch_id) is not None

    def lines_of(self, batch_id: str, *, is_failed: bool) -> Iterator[bytes]:
        sql = "SELECT line FROM items WHERE batch_id = ? AND is_failed = ? ORDER BY number"
        for (line,) in self._database.execute(sql, (batch_id, is_failed)):
            yield line

    def places_without_answer(self, batch_id: str) -> list[tuple[int, str]]:
        sql = "SELECT number, custom_id FROM items WHERE batch_id = ? AND line IS NULL ORDER BY number"
        return self._database.execute(sql, (batch_id,)).fetchall()

    def finish(self, batch: Batch, files: Sequence[StoredFile]) -> None:
        """The contents of `files` are on disk."""
        with self._database.transaction():
            for file in files:
                self._insert_file(file)
            self._save(batch)
            self._database.execute("DELETE FROM items WHERE batch_id = ?", (batch.batch_id,))

    def created_at(self, kind: str, name: str) -> int | None:
        """Of a file or batch, in seconds; None if it is not there."""
        return self._database.created_at(kind, name)

    # -- inside

    def _insert_file(self, file: StoredFile) -> None:
        self._database.execute(
            "INSERT OR IGNORE INTO files (file_id, tenant_id, purpose, size_bytes, expires_at, content)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (file.file_id, file.tenant_id, file.purpose, file.size_bytes, file.expires_at, _text(file)),
        )

    def _save(self, batch: Batch) -> None:
        self._database.execute(
            "INSERT INTO batches (batch_id, tenant_id, status, created_at, input_file_id, content)"
            " VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (batch_id) DO UPDATE SET status = excluded.status, content = excluded.content",
            (batch.batch_id, batch.tenant_id, batch.status, batch.created_at, batch.input_file_id, _text(batch)),
        )

    def _keep(self, answer: AnsweredItem) -> None:
        record = msgspec.json.encode(answer.record) if answer.record is not None else None
        changed = self._database.execute(
            "UPDATE items SET line = ?, is_failed = ?, record = ? WHERE batch_id = ? AND number = ? AND line IS NULL",
            (answer.line, answer.is_failed, record, answer.batch_id, answer.number),
        )
        found = self._database.one("SELECT content FROM batches WHERE batch_id = ?", answer.batch_id)
        if changed.rowcount and found is not None:
            batch = _decode_batch(found[0])
            self._save(msgspec.structs.replace(batch, counts=_counted(batch.counts, answer)))


def _that_fit(places: Sequence[Place]) -> list[Place]:
    """The first of them, as many as may be in memory together; one at least."""
    fitting: list[Place] = []
    left_bytes = LOADED_BYTES
    for place in places:
        left_bytes -= place.length_bytes
        if fitting and left_bytes < 0:
            break
        fitting.append(place)
    return fitting


def _counted(counts: Counts, answer: AnsweredItem) -> Counts:
    return Counts(counts.total, counts.completed + (not answer.is_failed), counts.failed + answer.is_failed)


def _read_at(fd: int, place: Place) -> bytes:
    return os.pread(fd, place.length_bytes, place.start)


def _text(shape: StoredFile | Batch) -> str:
    return msgspec.json.encode(shape).decode()

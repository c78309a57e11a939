"""A file on its way in: from the client's connection through a form to the disk, with little of it in memory."""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from msgspec import Struct

from workers.gateway.batches.multipart import FormReader, cut_short
from workers.gateway.errors import GatewayError, bad_request
from workers.gateway.http.request_heads import RefusedRequestError

FILE_FIELD = "file"
# So much may wait for the disk before the client is held back.
HELD_BYTES = 1024 * 1024
_MIB = 1024 * 1024


class Source(Protocol):
    """What is used of the client's transport."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class ArrivedFile(Struct, frozen=True):
    """`values` are the form's other fields."""

    path: Path
    filename: str
    size_bytes: int
    values: dict[str, str]


class Room:
    """How much more a tenant may keep, counting what is arriving. `kept_by` is how many files and bytes are kept."""

    def __init__(self, kept_by: Callable[[str], Awaitable[tuple[int, int]]], *, max_files: int, max_bytes: int) -> None:
        self._kept_by = kept_by
        self._max_files = max_files
        self._max_bytes = max_bytes
        self._files: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._elsewhere: dict[str, tuple[int, int]] = {}

    def arriving(self) -> dict[str, tuple[int, int]]:
        """Files and bytes by tenant."""
        return {tenant_id: (files, self._bytes[tenant_id]) for tenant_id, files in self._files.items()}

    def note_elsewhere(self, arriving: dict[str, tuple[int, int]]) -> None:
        """What arrives at other processes of this gateway, as of a second ago."""
        self._elsewhere = arriving

    def open(self, tenant_id: str) -> None:
        self._files[tenant_id] += 1

    async def take(self, tenant_id: str, size_bytes: int) -> None:
        """Raises when it is too much."""
        self._bytes[tenant_id] += size_bytes
        files, kept_bytes = await self._kept_by(tenant_id)
        elsewhere = self._elsewhere.get(tenant_id, (0, 0))
        files, kept_bytes = files + elsewhere[0], kept_bytes + elsewhere[1]
        if files + self._files[tenant_id] > self._max_files or kept_bytes + self._bytes[tenant_id] > self._max_bytes:
            message = f"Your tenant may keep {self._max_files} files of {self._max_bytes} bytes together; delete some."
            raise GatewayError(403, "storage_limit", message, param=FILE_FIELD)

    def close(self, tenant_id: str, size_bytes: int) -> None:
        """It is kept now, or gone."""
        for counts, amount in ((self._files, 1), (self._bytes, size_bytes)):
            counts[tenant_id] -= amount
            if counts[tenant_id] <= 0:
                del counts[tenant_id]


class Arrival:
    """A `BodySink`. What is wrong with it is said by `finish`, once all of it has come."""

    def __init__(
        self, path: Path, source: Source, room: Room, *, tenant_id: str, content_type: bytes, max_bytes: int
    ) -> None:
        self.max_bytes = max_bytes
        message = b"A file may have at most %d MiB." % (max_bytes // _MIB)
        self.too_large = RefusedRequestError(413, b"file_too_large", message)
        self._path = path
        self._source = source
        self._room = room
        self._tenant_id = tenant_id
        self._file: BinaryIO | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._is_paused = False
        self._size_bytes = 0
        self._charged_bytes = 0
        self._writing: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._error: Exception | None = None
        self._form: FormReader | None = None
        room.open(tenant_id)
        try:
            self._form = FormReader(content_type, large=FILE_FIELD)
        except GatewayError as error:
            self._error = error

    # -- from the connection

    def take(self, piece: bytes) -> None:
        if self._error is not None or self._form is None:
            return
        try:
            self._waiting += self._form.feed(piece)
        except GatewayError as error:
            self._fail(error)
            return
        self._waiting_bytes = sum(map(len, self._waiting))
        if self._waiting_bytes > HELD_BYTES:
            self._is_paused = True
            self._source.pause_reading()
        if self._waiting and self._writing is None:
            self._writing = asyncio.create_task(self._write())

    def end(self) -> None:
        self._resume()

    def abandon(self) -> None:
        """Nothing of it is left; of a file that was kept nothing is here any more."""
        if self._closing is None:
            self._fail(cut_short())
            self._close(unwanted=self._path)

    # -- from whoever keeps it

    async def finish(self) -> ArrivedFile:
        """All of it is on the disk. Raises what is wrong, OSError among it."""
        if self._writing is not None:
            await self._writing
        if self._error is not None:
            raise self._error
        form = self._form
        if form is None or not form.is_over:
            raise cut_short()
        if form.filename is None:
            raise bad_request("invalid_request", "A `file` is missing.", FILE_FIELD)
        if not self._size_bytes:
            raise bad_request("invalid_request", "The file is empty.", FILE_FIELD)
        if self._file is not None:
            await asyncio.to_thread(_sync, self._file)
        return ArrivedFile(self._path, form.filename, self._size_bytes, form.values)

    def kept(self) -> None:
        """It has another name now."""
        if self._closing is None:
            self._close(unwanted=None)

    # -- inside

    async def _write(self) -> None:
        try:
            while self._waiting:
                pieces, self._waiting = self._waiting, []
                self._charged_bytes += self._waiting_bytes
                await self._room.take(self._tenant_id, self._waiting_bytes)
                await asyncio.to_thread(self._append, pieces)
                self._resume()
        except (GatewayError, OSError) as error:
            self._fail(error)
        finally:
            self._writing = None

    def _append(self, pieces: Sequence[bytes]) -> None:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("xb")
        self._file.writelines(pieces)
        self._size_bytes += sum(map(len, pieces))

    def _fail(self, error: Exception) -> None:
        """The rest is thrown away as it comes."""
        self._error = self._error or error
        self._waiting = []
        self._resume()

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._source.resume_reading()

    def _close(self, *, unwanted: Path | None) -> None:
        if self._writing is None:
            self._room.close(self._tenant_id, self._charged_bytes)
        self._closing = asyncio.create_task(self._let_go(self._writing, unwanted))

    async def _let_go(self, writing: "asyncio.Task[None] | None", unwanted: Path | None) -> None:
        if writing is not None:
            await writing
            self._room.close(self._tenant_id, self._charged_bytes)
        if self._file is not None:
            await asyncio.to_thread(_end_file, self._file, unwanted)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _end_file(file: BinaryIO, unwanted: Path | None) -> None:
    try:
        file.close()
    finally:
        if unwanted is not None:
            unwanted.unlink(missing_ok=True)

"""`/v1/files` and `/v1/batches`: each tenant sees its own."""

import asyncio
import logging
import random
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from workers.gateway import errors
from workers.gateway.batches.arriving import Arrival, Room
from workers.gateway.batches.forms import PURPOSE, input_file_of, read_new_batch, read_upload
from workers.gateway.batches.lists import Lists, not_found
from workers.gateway.batches.places import tag_of
from workers.gateway.batches.sending import FileSending
from workers.gateway.batches.shapes import COMPLETION_WINDOW_S, Batch, StoredFile
from workers.gateway.batches.stages import FILE_LIFETIME_S
from workers.gateway.batches.store import Store
from workers.gateway.batches.threads import StoreThread
from workers.gateway.errors import GatewayError
from workers.gateway.front import forwarding
from workers.gateway.front.neighbours import Neighbours
from workers.gateway.http.heads import Headers
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.server import ClientConnection
from workers.gateway.snapshots.directory import Grant

logger = logging.getLogger(__name__)

_JSON = (b"content-type", b"application/json")


class Limits(Struct, frozen=True, kw_only=True):
    """Of each tenant, and of each file."""

    max_file_bytes: int = 512 * 1024**2
    max_files: int = 1000
    max_bytes: int = 2 * 1024**3
    max_unfinished_batches: int = 100


class Asked(Struct, frozen=True):
    """`name` is the id in the path, "" where there is none; `headers` are ours, for the answer.

    `is_forwarded` by another node's gateway.
    """

    request: HttpRequest
    grant: Grant
    name: str
    sending: FileSending
    headers: Headers
    is_forwarded: bool

    @property
    def tenant_id(self) -> str:
        return self.grant.tenant_id


Answer = dict[str, Any] | StoredFile
Answering = Callable[[Asked], Coroutine[Any, Any, Answer]]


class BatchAPI:
    """`node_id` is in every id, so that one tells where its batch lives. Files arrive in `arrivals`."""

    def __init__(
        self,
        store: StoreThread,
        *,
        arrivals: Path,
        node_id: str,
        neighbours: Neighbours,
        wake: Callable[[], None],
        respond_error: Callable[[ClientConnection, HttpRequest, GatewayError, Headers], None],
        unix_time: Callable[[], float],
        randomness: random.Random,
        limits: Limits | None = None,
    ) -> None:
        self._store = store
        self._node_tag = tag_of(node_id)
        self._neighbours = neighbours
        self._lists = Lists(store, neighbours, self._node_tag)
        self._wake = wake
        self._respond_error = respond_error
        self._unix_time = unix_time
        self._randomness = randomness
        self._limits = limits or Limits()
        self._arrivals = arrivals
        self.room = Room(self._kept_by, max_files=self._limits.max_files, max_bytes=self._limits.max_bytes)
        self._tasks: set[asyncio.Task[None]] = set()
        self._paths: dict[tuple[str, int, str], dict[str, Answering]] = {
            ("files", 1, ""): {"GET": self._list, "POST": self._upload},
            ("files", 2, ""): {"GET": self._show_file, "DELETE": self._delete_file},
            ("files", 3, "content"): {"GET": self._open_file},
            ("batches", 1, ""): {"GET": self._list, "POST": self._create_batch},
            ("batches", 2, ""): {"GET": self._show_batch},
            ("batches", 3, "cancel"): {"POST": self._cancel_batch},
        }

    def answer(self, client: ClientConnection, request: HttpRequest, grant: Grant, headers: Headers) -> None:
        """Later; the connection takes up no other request before."""
        parts = request.path.decode("utf-8", "replace").split("/")[2:]
        found = self._paths.get((parts[0], len(parts), parts[2] if len(parts) > 2 else ""))  # noqa: PLR2004
        if found is None:
            raise errors.path_unknown(request.path.decode("utf-8", "replace"))
        method = "GET" if request.method == b"HEAD" else request.method.decode()
        if method not in found:
            raise errors.method_not_allowed(", ".join(found))
        name = parts[1] if len(parts) > 1 else ""
        kept_as = name or (input_file_of(request.body) if parts == ["batches"] and method == "POST" else "")
        is_forwarded = self._neighbours.is_one_asking(request)
        keeper = None if is_forwarded else self._neighbours.keeper_of(kept_as)
        if keeper is not None:
            forwarding.begin(client, request, headers, keeper, self._neighbours.own_words(request))
            return
        sending = FileSending(client, request)
        client.owner = sending
        asked = Asked(request, grant, name, sending, headers.copy(), is_forwarded)
        self._follow(asyncio.create_task(self._answer(sending, found[method], asked)))

    def _follow(self, task: "asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, sending: FileSending, answering: Answering, asked: Asked) -> None:
        headers = asked.headers
        try:
            answer = await answering(asked)
            if isinstance(answer, StoredFile):
                path = await self._store.run(lambda store: store.path_of(answer.file_id))
                await sending.send(path, answer.size_bytes, headers)
            else:
                sending.respond([_JSON, *headers], msgspec.json.encode(answer))
        except GatewayError as error:
            self._refuse(sending, asked.request, error, headers)
        except (OSError, sqlite3.Error):
            logger.exception("files and batches cannot be kept")
            self._refuse(sending, asked.request, _unavailable(), headers)
        except Exception:
            logger.exception("request failed")
            self._refuse(sending, asked.request, errors.internal(), headers)

    def _refuse(self, sending: FileSending, request: HttpRequest, error: GatewayError, headers: Headers) -> None:
        if sending.is_wanted:
            self._respond_error(sending.client, request, error, headers)

    async def _list(self, asked: Asked) -> Answer:
        kind = asked.request.path.decode().rpartition("/")[2]
        page, headers = await self._lists.page(
            asked.sending, asked.request, asked.tenant_id, kind, is_forwarded=asked.is_forwarded
        )
        asked.headers.extend(headers)
        return page

    # -- files

    def open_sink(self, client: ClientConnection, request: HttpRequest, grant: Grant) -> Arrival:
        """For the body of an upload, which need not have come yet."""
        return Arrival(
            self._arrivals / f".{self._randomness.getrandbits(96):024x}",
            client.transport,
            self.room,
            tenant_id=grant.tenant_id,
            content_type=request.header(b"content-type"),
            max_bytes=self._limits.max_file_bytes,
        )

    async def _kept_by(self, tenant_id: str) -> tuple[int, int]:
        return await self._store.call(Store.kept_by, tenant_id)

    async def _upload(self, asked: Asked) -> Answer:
        arrival = asked.request.sink
        if not isinstance(arrival, Arrival):  # its key was none when it began
            raise errors.key_invalid()
        arrived = await arrival.finish()
        upload = read_upload(arrived.filename, arrived.values)
        now = int(self._unix_time())
        file = StoredFile(
            file_id=self._new_id("file-"),
            tenant_id=asked.tenant_id,
            purpose=PURPOSE,
            filename=upload.filename,
            size_bytes=arrived.size_bytes,
            created_at=now,
            expires_at=now + (upload.expires_after_s or FILE_LIFETIME_S),
        )
        await self._store.call(Store.adopt_file, file, arrived.path)
        arrival.kept()
        return file.shown()

    async def _show_file(self, asked: Asked) -> Answer:
        return (await self._file(asked.tenant_id, asked.name)).shown()

    async def _open_file(self, asked: Asked) -> Answer:
        return await self._file(asked.tenant_id, asked.name)

    async def _delete_file(self, asked: Asked) -> Answer:
        file = await self._file(asked.tenant_id, asked.name)
        if await self._store.call(Store.is_in_use, file.file_id):
            raise GatewayError(409, "file_in_use", "A batch that is not finished reads this file.")
        await self._store.call(Store.delete_file, file.file_id)
        return {"id": file.file_id, "object": "file", "deleted": True}

    async def _file(self, tenant_id: str, file_id: str) -> StoredFile:
        file = await self._store.call(Store.get_file, tenant_id, file_id)
        if file is None:
            raise not_found("files", file_id)
        return file

    # -- batches

    async def _create_batch(self, asked: Asked) -> Answer:
        wanted = read_new_batch(asked.request.body)
        if not asked.grant.may_ask(wanted.endpoint.encode()):
            raise errors.path_not_in_scope(wanted.endpoint)
        file = await self._file(asked.tenant_id, wanted.input_file_id)
        if file.purpose != PURPOSE:
            raise errors.bad_request("invalid_request", "The file's purpose must be 'batch'.", "input_file_id")
        if await self._store.call(Store.unfinished_of, asked.tenant_id) >= self._limits.max_unfinished_batches:
            message = f"Your tenant may have {self._limits.max_unfinished_batches} unfinished batches."
            raise GatewayError(429, "too_many_batches", message, retry_after_s=60)
        now = int(self._unix_time())
        batch = Batch(
            batch_id=self._new_id("batch_"),
            tenant_id=asked.tenant_id,
            key_id=asked.grant.key_id,
            endpoint=wanted.endpoint,
            input_file_id=file.file_id,
            created_at=now,
            expires_at=now + COMPLETION_WINDOW_S,
            output_expires_after_s=wanted.output_expires_after_s,
            metadata=wanted.metadata,
        )
        await self._store.call(Store.save_batch, batch)
        self._wake()
        return batch.shown()

    async def _show_batch(self, asked: Asked) -> Answer:
        batch = await self._store.call(Store.get_batch, asked.tenant_id, asked.name)
        if batch is None:
            raise not_found("batches", asked.name)
        return batch.shown()

    async def _cancel_batch(self, asked: Asked) -> Answer:
        batch = await self._store.call(Store.cancel, asked.tenant_id, asked.name, self._unix_time())
        if batch is None:
            raise not_found("batches", asked.name)
        if batch.status not in ("cancelling", "cancelled"):
            message = f"A batch with the status '{batch.status}' cannot be cancelled."
            raise GatewayError(409, "batch_finished", message)
        self._wake()
        return batch.shown()

    def _new_id(self, prefix: str) -> str:
        return f"{prefix}{self._node_tag}{self._randomness.getrandbits(96):024x}"


def _unavailable() -> GatewayError:
    return GatewayError(503, "storage_unavailable", "Files and batches cannot be kept now.", retry_after_s=5)

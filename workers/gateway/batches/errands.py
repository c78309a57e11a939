"""Items of batches, asked for in the name of the key that created their batch."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Protocol

import msgspec
from msgspec import Struct

from workers.contracts.ids import uuid7
from workers.contracts.usage import UsageRecord
from workers.gateway.batches.loopback import Loopback, LoopbackAnswer
from workers.gateway.batches.shapes import Batch, Item
from workers.gateway.errors import GatewayError
from workers.gateway.front.marks import Errand
from workers.gateway.front.surface import Surface
from workers.gateway.http.connections import Connections
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.server import ClientConnection
from workers.gateway.http.turns import Turn
from workers.gateway.http.upstream import LAST_WORDS_S
from workers.gateway.snapshots.directory import Directory, Grant

# Of an item that was withdrawn: some have none, as they never reached an engine.
RECORD_WITHIN_S = LAST_WORDS_S + 1.0


class ItemIds(Struct, frozen=True):
    """The same for an item whenever it is asked for, so that a record that is written twice is stored once."""

    item_id: str
    request_id: str
    record_id: str


class Reply(Struct, frozen=True):
    """`answer` is None when we withdrew the request. `record` is what it used, not yet written anywhere."""

    answer: LoopbackAnswer | None
    record: UsageRecord | None


class Calling(Protocol):
    """An item that has been asked for, wherever."""

    async def reply(self) -> Reply: ...
    def withdraw(self) -> None: ...


class Asker(Protocol):
    """Whoever asks for items; `Errands` does it in this process."""

    @property
    def is_ready(self) -> bool: ...
    def may_use(self, grant: Grant, model: str) -> bool: ...
    def grant_of(self, batch: Batch) -> Grant | None: ...
    def is_elsewhere(self, item: Item) -> bool: ...
    def begin(self, batch: Batch, item: Item, grant: Grant) -> Calling: ...


class Deputy:
    """Asks as `own` does, but for what it knows of another to ask."""

    def __init__(self, own: Asker) -> None:
        self._own = own

    @property
    def is_ready(self) -> bool:
        return self._own.is_ready

    def may_use(self, grant: Grant, model: str) -> bool:
        return self._own.may_use(grant, model)

    def grant_of(self, batch: Batch) -> Grant | None:
        return self._own.grant_of(batch)

    def is_elsewhere(self, item: Item) -> bool:
        return self._own.is_elsewhere(item)


class ItemErrand(Struct, array_like=True):
    """An item that another process is asked for."""

    batch: Batch
    item: Item


def ids_of(batch: Batch, number: int) -> ItemIds:
    digest = sha256(f"{batch.batch_id}/{number}".encode()).digest()
    bits = int.from_bytes(digest[:10], "big") & ((1 << 74) - 1)
    return ItemIds(f"batch_req_{digest.hex()[:32]}", digest.hex()[32:], uuid7(batch.created_at, bits))


class Errands:
    """`connections` are those that the gateway waits for when it stops."""

    def __init__(
        self,
        surface: Surface,
        turn: Turn,
        connections: Connections,
        unix_time: Callable[[], float],
    ) -> None:
        self._surface = surface
        self._turn = turn
        self._connections = connections
        self._unix_time = unix_time

    @property
    def is_ready(self) -> bool:
        """Whether it is known whose keys are whose."""
        return self._surface.directory is not None

    def may_use(self, grant: Grant, model: str) -> bool:
        directory = self._surface.directory
        return directory is not None and directory.may_use(grant, model)

    def grant_of(self, batch: Batch) -> Grant | None:
        """The key's, in the last service class there is; None when the key is gone."""
        directory = self._surface.directory
        grant = directory.find_grant_by_id(batch.key_id, self._unix_time()) if directory is not None else None
        return _in_last_class(grant, directory) if grant is not None and directory is not None else None

    def is_elsewhere(self, item: Item) -> bool:
        del item
        return False

    def begin(self, batch: Batch, item: Item, grant: Grant) -> "Call":
        ids = ids_of(batch, item.number)
        kept = _Kept()
        tags = {"batch_id": batch.batch_id, "batch_custom_id": item.custom_id}
        errand = Errand(grant=grant, record_id=ids.record_id, tags=tags, keep_record=kept.take)

        def handle(client: ClientConnection, request: HttpRequest) -> None:
            self._surface.run_errand(client, request, errand)

        loopback = Loopback(handle, self._connections, self._turn)
        headers = {"content-type": "application/json", "x-request-id": ids.request_id}
        loopback.send(batch.endpoint, headers, item.body)
        return Call(loopback, kept)


class _Kept:
    """The record of an item, which comes with its answer, or after a withdrawal once the engine has been heard out."""

    def __init__(self) -> None:
        self.record: UsageRecord | None = None
        self._has_come = asyncio.Event()

    def take(self, record: UsageRecord) -> None:
        self.record = record
        self._has_come.set()

    async def wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(RECORD_WITHIN_S):
                await self._has_come.wait()


class Call:
    """An item that has been asked for."""

    def __init__(self, loopback: Loopback, kept: _Kept) -> None:
        self._loopback = loopback
        self._kept = kept

    async def reply(self) -> Reply:
        answer = await self._loopback.answer()
        if answer is None:
            await self._kept.wait()
        return Reply(answer, self._kept.record)

    def withdraw(self) -> None:
        """As a client that closes its connection: the reply has no answer, but what was used by then."""
        self._loopback.close()


def refused(error: GatewayError) -> Reply:
    """Nobody has begun it, and it is asked for again."""
    return Reply(LoopbackAnswer(error.status, dict(error.headers()), error.body()), None)


def _in_last_class(grant: Grant, directory: Directory) -> Grant:
    """Without promises of speed, and wherever the key was shown when the batch was made."""
    rank = directory.lowest_rank
    tenant = msgspec.structs.replace(grant.tenant, service_class=directory.class_names[rank])
    return Grant(key=grant.key, tenant=tenant, rank=rank, models=grant.models, paths=grant.paths)

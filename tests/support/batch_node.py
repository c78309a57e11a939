"""A gateway's batches without the gateway: a node that outlives its processes, and engines that answer at will."""

import asyncio
import itertools
import time
from collections.abc import Callable

from tests.support.batches import chats
from tests.support.usage_records import usage_record
from workers.gateway.batches.errands import Reply, ids_of
from workers.gateway.batches.loopback import LoopbackAnswer
from workers.gateway.batches.runner import Engines, Runner
from workers.gateway.batches.shapes import Batch, StoredFile
from workers.gateway.batches.store import Store
from workers.gateway.batches.threads import StoreThread

NOW = 1_800_000_000


class Killed(BaseException):
    """Nothing of the gateway's runs after it."""


class Node:
    """What outlives a gateway: its directory and its spool; and engines, which never answer the same twice."""

    def __init__(self, directory):
        self.directory = directory
        self.spool = []
        self.asked = itertools.count(1)
        self.is_fatal = None  # called with the name of each step, before and after it
        self.now = NOW
        self.slots = 4
        self.is_granted = True
        self.reply_to: Callable[[int, str], Reply] = answered  # what an item gets, by the count of those asked before

    def step(self, name):
        if self.is_fatal is not None and self.is_fatal(name):
            raise Killed(name)

    def write_record(self, record):
        self.step("before write_record")
        self.spool.append(record)
        self.step("after write_record")

    async def run_gateway(self, until):
        store = ShakyStore(self)
        runner = Runner(
            store,
            Errands(self),
            look_at_engines=lambda: Engines(self.slots, 0),
            write_record=self.write_record,
            is_recording=lambda: True,
            monotonic=time.monotonic,
            unix_time=lambda: self.now,
        )
        running = asyncio.create_task(runner.run())
        try:
            while not running.done() and not await until(store):  # noqa: ASYNC110 - a database has no event
                await asyncio.sleep(0.01)
            runner.is_stopping = True
            await running
        finally:
            store.is_dead = True
            await store.close()


class ShakyStore(StoreThread):
    def __init__(self, node):
        super().__init__(node.directory)
        self._node = node
        self.is_dead = False

    async def call(self, method, *args, **kwargs):
        if self.is_dead or method is Store.get_batch:
            return await super().call(method, *args, **kwargs)
        self._node.step(f"before {method.__name__}")
        result = await super().call(method, *args, **kwargs)
        self._node.step(f"after {method.__name__}")
        return result


class Errands:
    is_ready = True

    def __init__(self, node):
        self._node = node

    def grant_of(self, batch):
        return object() if self._node.is_granted else None

    def may_use(self, grant, model):
        return True

    def is_elsewhere(self, item):
        return False

    def begin(self, batch, item, grant):
        number = next(self._node.asked)
        return Call(self._node.reply_to(number, ids_of(batch, item.number).record_id))


class Call:
    """`reply` None comes only when it is withdrawn."""

    def __init__(self, reply):
        self._reply = reply
        self._has_ended = asyncio.Event()
        if reply.answer is not None:
            self._has_ended.set()

    async def reply(self):
        await self._has_ended.wait()
        return self._reply

    def withdraw(self):
        self._has_ended.set()


def answered(number: int, record_id: str) -> Reply:
    """With as many tokens as were items before, so that no two answers are alike."""
    record = usage_record(number, record_id=record_id, output_tokens=number)
    return Reply(LoopbackAnswer(200, {}, b'{"tokens":%d}' % number), record)


def refused(number: int, record_id: str) -> Reply:
    record = usage_record(number, record_id=record_id, outcome="refused", usage_source="none", output_tokens=0)
    return Reply(LoopbackAnswer(429, {b"retry-after": b"1"}, b"{}"), record)


def failed(number: int, record_id: str) -> Reply:
    record = usage_record(number, record_id=record_id, outcome="failed", usage_source="estimated", output_tokens=3)
    return Reply(LoopbackAnswer(502, {}, b'{"error":{}}'), record)


def withdrawn(number: int, record_id: str) -> Reply:
    """Its client left it while an engine worked on it."""
    record = usage_record(number, record_id=record_id, outcome="client_left", usage_source="estimated", output_tokens=2)
    return Reply(None, record)


def hand_in(node: Node, *, items: int, content: bytes | None = None, batch_id: str = "batch_1") -> Batch:
    """Not yet looked at by any gateway."""

    store = Store(node.directory)
    content = chats(items) if content is None else content
    file = StoredFile(
        file_id=f"file-of-{batch_id}",
        tenant_id="t",
        purpose="batch",
        filename="in",
        size_bytes=len(content),
        created_at=NOW,
    )
    arrived = store.path_of(".arrived")
    arrived.write_bytes(content)
    store.adopt_file(file, arrived)
    batch = Batch(
        batch_id=batch_id,
        tenant_id="t",
        key_id="k",
        endpoint="/v1/chat/completions",
        input_file_id=file.file_id,
        created_at=NOW,
        expires_at=NOW + 1000,
    )
    store.save_batch(batch)
    store.close()
    return batch

"""Takes every batch from its creation to its end. All that matters is on disk, so that it may be killed at any moment.

What happens to an item, and what a restart finds after each step:

    1  it is asked for, as any request                    nothing: it is asked for again
    2  answer and usage record are kept together          its answer, and a record that may not be in the spool
    3  the record is written to the spool                 the same: the record is written again, under the same id
    4  the record is noted as written                     its answer

So what a client reads is what is billed, and a record that is written twice is stored once, by its id.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial

import msgspec

from workers.contracts.usage import UsageRecord
from workers.gateway.batches import stages
from workers.gateway.batches.errands import Asker, Reply, ids_of
from workers.gateway.batches.lines import answer_line
from workers.gateway.batches.loopback import LoopbackAnswer
from workers.gateway.batches.pace import FORWARDED_AT_ONCE, items_to_start
from workers.gateway.batches.progress import Progress
from workers.gateway.batches.shapes import AnsweredItem, Batch, Item, Status
from workers.gateway.batches.store import Store
from workers.gateway.batches.threads import StoreThread
from workers.gateway.errors import internal, key_invalid
from workers.gateway.snapshots.directory import Grant

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
LOOK_WHEN_BUSY_S = 0.1
LOADED_AT_ONCE = 64
CLOSING_GRACE_S = 60.0
RECORDS_AT_ONCE = 1000
CLEAN_EVERY_S = 60.0


class Engines(msgspec.Struct, frozen=True):
    """What the pace goes by: how many requests fit, and how many of others wait."""

    slots: int
    others_waiting: int


class Runner:
    def __init__(
        self,
        store: StoreThread,
        errands: Asker,
        *,
        look_at_engines: Callable[[], Engines],
        write_record: Callable[[UsageRecord], None],
        is_recording: Callable[[], bool],
        monotonic: Callable[[], float],
        unix_time: Callable[[], float],
    ) -> None:
        """`is_recording`: whether all that was written is on disk."""
        self._store = store
        self._errands = errands
        self._look_at_engines = look_at_engines
        self._write_record = write_record
        self._is_recording = is_recording
        self._monotonic = monotonic
        self._unix_time = unix_time
        self._running: dict[str, Progress] = {}
        self._turns: deque[str] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._forwarded: set[asyncio.Task[None]] = set()
        self._answers: list[AnsweredItem] = []
        self._written: dict[tuple[str, int], None] = {}
        self._woken = asyncio.Event()
        self._cleaned_at = 0.0
        self.is_stopping = False

    def wake(self) -> None:
        """Something has changed: it looks at once."""
        self._woken.set()

    async def run(self) -> None:
        """Until `is_stopping`; what fails is tried again. Of several gateways on one directory one does it."""
        while not self.is_stopping:
            try:
                if await self._store.call(Store.may_run):
                    await self._look()
            except Exception:
                logger.exception("batches are held up")
                await asyncio.sleep(LOOK_EVERY_S)
            await self._rest()
        await self._wind_up()

    # -- one look at everything

    async def _look(self) -> None:
        self._woken.clear()
        await self._keep_answers()
        await self._write_records()
        unfinished = await self._store.call(Store.list_unfinished)
        self._follow(unfinished)
        held_up = [batch.batch_id for batch in unfinished if not await self._is_advanced(self._running[batch.batch_id])]
        self._start_items()
        await self._clean_up()
        if held_up:
            await asyncio.sleep(LOOK_EVERY_S)

    async def _clean_up(self) -> None:
        now = self._unix_time()
        if now - self._cleaned_at > CLEAN_EVERY_S:
            self._cleaned_at = now
            await self._store.call(Store.delete_expired, now)

    def _follow(self, unfinished: list[Batch]) -> None:
        self._running = {batch.batch_id: self._running.get(batch.batch_id, Progress(batch)) for batch in unfinished}
        self._turns = deque([*filter(self._running.__contains__, self._turns)])
        for batch in unfinished:
            self._running[batch.batch_id].batch = batch
            if batch.batch_id not in self._turns:
                self._turns.append(batch.batch_id)

    async def _is_advanced(self, progress: Progress) -> bool:
        """What is wrong with one batch holds up no other; it is tried again until its time is over."""
        try:
            await self._advance(progress)
        except Exception:
            logger.exception("%s is held up", progress.batch.batch_id)
            return False
        return True

    async def _advance(self, progress: Progress) -> None:
        batch, now = progress.batch, self._unix_time()
        step = progress.step(now)
        if step == "validate":
            await self._validate(batch)
        elif step == "load":
            await self._load(progress)
        elif step == "finalize":
            await self._store.call(Store.move, batch.moved("finalizing", now))
            self.wake()
        elif step == "finish":
            await self._finish(batch, "completed")
        else:
            await self._close(progress)

    async def _rest(self) -> None:
        pause_s = LOOK_WHEN_BUSY_S if self._running else LOOK_EVERY_S
        try:
            async with asyncio.timeout(pause_s):
                await self._woken.wait()
        except TimeoutError:
            pass

    # -- a batch

    async def _validate(self, batch: Batch) -> None:
        """Waits for the first snapshot: without one nobody's keys are known."""
        if not self._errands.is_ready:
            return
        content = await self._store.run(lambda store: stages.open_input(store, batch))
        grant = self._errands.grant_of(batch)
        may_use = partial(self._errands.may_use, grant) if grant is not None else None
        check = await stages.check_input(content, batch.endpoint, may_use)
        await self._store.run(lambda store: stages.begin(store, batch, check, self._unix_time()))
        self.wake()

    async def _load(self, progress: Progress) -> None:
        if progress.ready:
            return
        items = await self._store.call(
            Store.pending_items, progress.batch, after=progress.last_loaded, limit=LOADED_AT_ONCE
        )
        progress.ready.extend(items)
        if items:
            progress.last_loaded = items[-1].number

    async def _close(self, progress: Progress) -> None:
        """What runs may end, for a while; the rest is told that it never ran."""
        batch = progress.batch
        is_cancelled = batch.status == "cancelling"
        progress.ending = "cancelled" if is_cancelled else "expired"
        for item, record in progress.give_up(f"batch_{progress.ending}"):
            self._answers.append(stages.withdrawn(batch, item, progress.ending, record))
        began_at = batch.cancelling_at if is_cancelled else batch.expires_at
        if progress.calls and began_at is not None and self._unix_time() - began_at > CLOSING_GRACE_S:
            for call in progress.calls.values():
                call.withdraw()
        elif not progress.calls and all(answer.batch_id != batch.batch_id for answer in self._answers):
            await self._finish(batch, progress.ending)

    async def _finish(self, batch: Batch, status: Status) -> None:
        if await self._store.call(Store.has_unrecorded, batch.batch_id):
            self.wake()
            return
        await self._store.run(lambda store: stages.finish(store, batch, status, self._unix_time()))

    # -- its items

    def _start_items(self) -> None:
        """In turns, so that a long batch does not hold up a short one."""
        engines = self._look_at_engines()
        in_flight = len(self._tasks) - len(self._forwarded)
        room = items_to_start(in_flight=in_flight, slots=engines.slots, others_waiting=engines.others_waiting)
        room_elsewhere = FORWARDED_AT_ONCE - len(self._forwarded)
        idle_turns = 0
        while (room > 0 or room_elsewhere > 0) and idle_turns < len(self._turns):
            progress = self._running[self._turns[0]]
            self._turns.rotate(-1)
            idle_turns += 1
            if not progress.is_due(self._monotonic()):
                continue
            is_elsewhere = self._errands.is_elsewhere(progress.ready[0])
            if (room_elsewhere if is_elsewhere else room) > 0:
                self._start(progress, progress.ready.popleft(), is_elsewhere=is_elsewhere)
                room, room_elsewhere = room - (not is_elsewhere), room_elsewhere - is_elsewhere
                idle_turns = 0

    def _start(self, progress: Progress, item: Item, *, is_elsewhere: bool) -> None:
        grant = self._errands.grant_of(progress.batch)
        if grant is None:
            error = key_invalid()
            record = progress.waste_of(item, error.code)
            self._answer(progress.batch, item, status=error.status, body=error.body(), record=record)
            return
        task = asyncio.create_task(self._ask(progress, item, grant))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if is_elsewhere:
            self._forwarded.add(task)
            task.add_done_callback(self._forwarded.discard)

    async def _ask(self, progress: Progress, item: Item, grant: Grant) -> None:
        try:
            call = progress.calls[item.number] = self._errands.begin(progress.batch, item, grant)
            reply = await call.reply()
        except Exception:
            logger.exception("an item of %s failed", progress.batch.batch_id)
            reply = Reply(LoopbackAnswer(500, {}, internal().body()), None)
        finally:
            progress.calls.pop(item.number, None)
            self.wake()
        if progress.judge(item, reply, self._monotonic()) == "keep":
            self._take(progress, item, reply)

    def _take(self, progress: Progress, item: Item, reply: Reply) -> None:
        """An item that was withdrawn is answered only if it has used something; else it is as if it never ran."""
        record = progress.due_record(item, reply)
        if reply.answer is not None:
            self._answer(progress.batch, item, status=reply.answer.status, body=reply.answer.body, record=record)
        elif record is not None and (record.usage_source != "none" or record.wasted_tokens):
            self._answers.append(stages.withdrawn(progress.batch, item, progress.ending or "cancelled", record))
        else:
            progress.ready.append(item)

    def _answer(self, batch: Batch, item: Item, *, status: int, body: bytes, record: UsageRecord | None = None) -> None:
        ids = ids_of(batch, item.number)
        line = answer_line(ids.item_id, item.custom_id, status=status, request_id=ids.request_id, body=body)
        is_failed = status >= 400  # noqa: PLR2004 - HTTP
        self._answers.append(AnsweredItem(batch.batch_id, item.number, line, is_failed, record))
        self.wake()

    # -- answers and records

    async def _keep_answers(self) -> None:
        """All that came since the last look, in one write."""
        answers = self._answers[:]
        if answers:
            await self._store.call(Store.keep_answers, answers)
            del self._answers[: len(answers)]

    async def _write_records(self) -> None:
        """Those written at the last look are on disk by now, unless the disk refuses."""
        if self._written and self._is_recording():
            await self._store.call(Store.note_recorded, list(self._written))
            self._written.clear()
        for batch_id, number, record in await self._store.call(Store.unrecorded, RECORDS_AT_ONCE):
            if (batch_id, number) not in self._written:
                self._write_record(record)
                self._written[(batch_id, number)] = None
                self.wake()

    async def _wind_up(self) -> None:
        """What runs may end for as long as the gateway lets it; then another process may go on."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._keep_answers()
        await self._write_records()
        await asyncio.sleep(0)  # the end of the turn, in which they are written
        await self._write_records()
        await self._store.call(Store.leave_running)

"""Records stored per second, and what a thousand cost: the web process from the frame on, and Postgres.

Each process takes the frames of one gateway and stores as many together as the inbox of the links does when they come
faster than they are stored. Frames are made before the clock runs.
"""

import multiprocessing
import os
import sys
import time
from multiprocessing.synchronize import Barrier
from typing import NamedTuple
from uuid import UUID

from benchmarks.usage.source import BATCH, Source
from benchmarks.usage.yard import NOW, cpu_s_of
from workers.contracts.ids import uuid7
from workers.contracts.link import UsageBatch, decode_from_agent


class Load(NamedTuple):
    """Of each process. `together` are the batches that are stored in one transaction."""

    records: int
    days: float
    end_users: int
    together: int


def measure_ingest(load: Load, processes: int) -> None:
    from django.db import connections  # noqa: PLC0415 - after Django is set up

    connections.close_all()
    barrier = multiprocessing.Barrier(processes + 1)
    senders = [multiprocessing.Process(target=_send, args=(barrier, number, load)) for number in range(processes)]
    for sender in senders:
        sender.start()
    barrier.wait()
    began = time.perf_counter()
    for sender in senders:
        sender.join()
    elapsed_s = time.perf_counter() - began
    stored = load.records * processes
    print(f"ingest: {stored:,} records in {elapsed_s:.1f} s by {processes} processes, {stored / elapsed_s:,.0f}/s")


def _send(barrier: Barrier, number: int, load: Load) -> None:
    from django.db import connection  # noqa: PLC0415

    frames = list(Source(number, load.records, load.days, load.end_users).frames())
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = cursor.fetchone()[0]
    before_s = cpu_s_of(backend)
    barrier.wait()
    began_s = time.process_time()
    for first in range(0, len(frames), load.together):
        _store(frames[first : first + load.together], UUID(uuid7(1.0, number)))
    ours_ms, theirs_ms = (time.process_time() - began_s) * 1e3, (cpu_s_of(backend) - before_s) * 1e3
    thousands = load.records / 1000
    print(
        f"  gateway {number}: CPU a thousand records: web {ours_ms / thousands:.1f} ms, "
        f"Postgres {theirs_ms / thousands:.1f} ms",
        flush=True,
    )
    os._exit(0)  # what the parent registered to run at its end is not the child's


def _store(frames: list[bytes], node_id: UUID) -> None:
    from apps.usage.services.ingest import Incoming, ingest_batches  # noqa: PLC0415

    batches = [decode_from_agent(frame) for frame in frames]
    incoming = [Incoming(node_id=node_id, records=batch.records) for batch in batches if isinstance(batch, UsageBatch)]
    counts = ingest_batches(incoming, now=NOW)
    if sum(each.stored for each in counts) != sum(len(each.records) for each in incoming):
        sys.exit(f"a record of a batch of {BATCH} was not stored")

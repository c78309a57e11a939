"""Records stored per second by the whole way in: frames on agents' links, the web process, Postgres, acknowledgements.

As an agent does, a link sends a batch when the one before it is acknowledged. Frames are made before the clock runs.
"""

import asyncio
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import psycopg
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.usage.ingest import Load
from benchmarks.usage.source import Source
from benchmarks.usage.yard import HOST, Yard, cpu_s_of, running_web
from workers.contracts.link import Hello, UsageAck, decode_to_agent

_TOLD_EACH_S = 5.0
_ACK_TIMEOUT_S = 60.0


class _Node(NamedTuple):
    node_id: str
    token: str


def measure_links(yard: Yard, load: Load, links: int) -> None:
    """`load.records` of each link."""
    with multiprocessing.Pool(min(links, os.cpu_count() or 1)) as makers:
        frames = makers.starmap(_frames, [(number, load) for number in range(links)])
    logging.getLogger("apps.common").setLevel(logging.ERROR)  # there is no controller to be told of a new node
    nodes = [_join(number) for number in range(links)]
    with running_web(yard) as (web, port):
        before_web_s, before_s = cpu_s_of(web.pid), _postgres_cpu_s(yard)
        elapsed_s = asyncio.run(_send_all(nodes, frames, port))
        thousands = load.records * links / 1000
        print(
            f"links: {thousands * 1000:,.0f} records in {elapsed_s:.1f} s over {links} links, "
            f"{thousands * 1000 / elapsed_s:,.0f}/s; CPU a thousand records: "
            f"web {(cpu_s_of(web.pid) - before_web_s) * 1e3 / thousands:.1f} ms, "
            f"Postgres {(_postgres_cpu_s(yard) - before_s) * 1e3 / thousands:.1f} ms"
        )
    _check_all_are_there(yard, load.records * links)


def _frames(number: int, load: Load) -> list[str]:
    return [frame.decode() for frame in Source(number, load.records, load.days, load.end_users).frames()]


def _join(number: int) -> _Node:
    from django.utils import timezone  # noqa: PLC0415 - after Django is set up

    from apps.common.actors import SYSTEM  # noqa: PLC0415
    from apps.fleet.services.nodes import join_node  # noqa: PLC0415

    node, token = join_node(actor=SYSTEM, name=f"bench-{number}", now=timezone.now())
    return _Node(str(node.pk), token)


async def _send_all(nodes: Sequence[_Node], frames: Sequence[list[str]], port: int) -> float:
    stored = [0] * len(nodes)
    async with asyncio.TaskGroup() as group:
        links = [await _linked(node, port) for node in nodes]
        teller = group.create_task(_tell(stored))
        began = time.perf_counter()
        senders = [
            group.create_task(_send(link, own, stored, place))
            for place, (link, own) in enumerate(zip(links, frames, strict=True))
        ]
        await asyncio.gather(*senders)
        elapsed_s = time.perf_counter() - began
        teller.cancel()
    return elapsed_s


async def _linked(node: _Node, port: int) -> ClientConnection:
    link = await connect(
        f"ws://{HOST}:{port}/ws/agent/",
        additional_headers={"Authorization": f"Bearer {node.token}"},
        compression=None,
        proxy=None,
        max_size=None,
    )
    hello = Hello(node_id=node.node_id, boot_id="benchmark", agent_version="0")
    await link.send(msgspec.json.encode(hello).decode())
    return link


async def _send(link: ClientConnection, frames: list[str], stored: list[int], place: int) -> None:
    for frame in frames:
        await link.send(frame)
        async with asyncio.timeout(_ACK_TIMEOUT_S):
            while not isinstance(answer := decode_to_agent(await link.recv()), UsageAck):
                continue
        if answer.duplicate:
            sys.exit(f"{answer.duplicate} records of a batch were taken for others")
        stored[place] += answer.stored
    await link.close()


async def _tell(stored: list[int]) -> None:
    before = 0
    while True:
        await asyncio.sleep(_TOLD_EACH_S)
        print(f"  {(sum(stored) - before) / _TOLD_EACH_S:,.0f}/s", flush=True)
        before = sum(stored)


def _postgres_cpu_s(yard: Yard) -> float:
    """The postmaster with all that it has started, and those of them that have ended."""
    children = Path(f"/proc/{yard.postmaster}/task/{yard.postmaster}/children").read_text().split()
    return cpu_s_of(yard.postmaster, with_ended=True) + sum(cpu_s_of(int(pid)) for pid in children)


def _check_all_are_there(yard: Yard, count: int) -> None:
    with psycopg.connect(yard.server.url()) as connection:
        for table, counted in (("usage_record", "count(*)"), ("usage_total", "sum(request_count)")):
            (found,) = connection.execute(f"SELECT {counted} FROM {table}").fetchone() or (0,)  # noqa: S608 - constants
            if found != count:
                sys.exit(f"{table} has {found} of {count} records")

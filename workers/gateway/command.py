"""The gateway of a node, or one alone with a snapshot file: one process, or a parent and several."""

import argparse
import asyncio
import errno
import gc
import logging
import random
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import uvloop

from workers.contracts.ids import uuid7
from workers.contracts.log_lines import log_to_stderr
from workers.gateway.http.handover import Listening, bind, offer, take_over
from workers.gateway.observing.access_log import AccessLog
from workers.gateway.observing.admin import Pages
from workers.gateway.observing.admin_port import AdminPort, start_admin
from workers.gateway.options import config_of, endpoints_file_of, handover_path_of, parse, snapshot_file_of
from workers.gateway.service import GatewayService
from workers.gateway.sisters.company import Company
from workers.gateway.sisters.member import Ends, Member
from workers.gateway.sisters.parent import Parent, Plan

logger = logging.getLogger(__name__)

# A request leaves nothing that refers to itself, so there is little to look for; and to look cost a seventh of its CPU.
COLLECT_AFTER_OBJECTS = (50_000, 20, 50)
TAKE_OVER_WITHIN_S = 30.0
TAKE_OVER_AGAIN_S = 0.2


def main(*, is_compiled: bool) -> None:
    arguments = parse()
    log_to_stderr()
    if arguments.member is not None:
        gc.set_threshold(*COLLECT_AFTER_OBJECTS)
        uvloop.run(_serve_as_member(arguments))
    elif arguments.processes > 1:
        logger.info("the hot path runs %s, in %s processes", _word(is_compiled), arguments.processes)
        uvloop.run(_be_parent(arguments))
    else:
        logger.info("the hot path runs %s", _word(is_compiled))
        gc.set_threshold(*COLLECT_AFTER_OBJECTS)
        uvloop.run(_serve(arguments))


def _word(is_compiled: bool) -> str:
    return "compiled" if is_compiled else "interpreted"


async def _serve(arguments: argparse.Namespace) -> None:
    service = _build_service(arguments)
    stop, succeeded = _stop_on_signals(), asyncio.Event()
    path = handover_path_of(arguments)
    listening = await _listening(arguments, path, stop)
    admin = start_admin(listening.admin, _pages(service))
    offering: list[asyncio.Task[None]] = []

    def now_listens() -> None:
        listening.say_ready()
        offering.append(asyncio.create_task(_offer(path, listening, admin, succeeded)))

    try:
        await service.run(stop, listening.serve, succeeded, now_listens)
    finally:
        for task in offering:
            task.cancel()
        admin.shutdown()


async def _serve_as_member(arguments: argparse.Namespace) -> None:
    stop = _stop_on_signals()
    member = Member(_ends(arguments.member))
    service = _build_service(arguments, member)
    await member.meet_parent(_pages(service).answer)
    await service.run(stop, member.listening, member.succeeded, member.now_listens)


async def _be_parent(arguments: argparse.Namespace) -> None:
    stop = _stop_on_signals()
    path = handover_path_of(arguments)
    config = config_of(arguments)
    plan = Plan(
        processes=arguments.processes,
        gateway_id=config.gateway_id,
        boot_id=uuid7(time.time(), random.SystemRandom().getrandbits(74)),
        command_of=_member_command,
        report_file=config.report_file,
        handover_path=path,
        grace_s=arguments.grace_s,
        handover_grace_s=arguments.handover_grace_s,
    )
    listening = await _listening(arguments, path, stop)
    await Parent(plan, listening, snapshot_file_of(arguments), endpoints_file_of(arguments)).run(stop)


def _member_command(number: int, descriptors: Sequence[int]) -> list[str]:
    member = ",".join(map(str, (number, *descriptors)))
    return [sys.executable, "-m", "workers.gateway", *sys.argv[1:], "--member", member]


def _ends(member: list[int]) -> Ends:
    number, *descriptors = member
    serve, control, inbox, *inboxes = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    return Ends(number=number, serve=serve, control=control, inbox=inbox, inboxes=inboxes)


def _build_service(arguments: argparse.Namespace, company: Company | None = None) -> GatewayService:
    observers = [AccessLog(_write_line).observe] if arguments.access_log else []
    return GatewayService(
        config_of(arguments),
        snapshot_file_of(arguments),
        endpoints_file_of(arguments),
        observers=observers,
        company=company,
    )


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def _listening(arguments: argparse.Namespace, path: Path, stop: asyncio.Event) -> Listening:
    """Whoever holds the port may have begun a moment ago, and not be ready to hand it over."""
    until = time.monotonic() + TAKE_OVER_WITHIN_S
    while True:
        taken = take_over(path) if arguments.take_over else None
        if taken is not None:
            _stand_back_without_snapshot(arguments, taken)
            return taken
        try:
            return bind(arguments.host, arguments.port, arguments.admin_port)
        except OSError as error:
            may_wait = arguments.take_over and error.errno == errno.EADDRINUSE and not stop.is_set()
            if not may_wait or time.monotonic() > until:
                raise
        await asyncio.sleep(TAKE_OVER_AGAIN_S)


def _stand_back_without_snapshot(arguments: argparse.Namespace, taken: Listening) -> None:
    """Whoever serves has one: a successor that can read none would answer nobody in its place."""
    file = snapshot_file_of(arguments)
    if file.read_if_changed() or file.load_last_good():
        return
    taken.close()
    raise SystemExit(f"the gateway that serves is left alone, as there is no snapshot to serve from here: {file.error}")


def _pages(service: GatewayService) -> Pages:
    return Pages(
        read_report=lambda: service.report,
        metrics=service.metrics,
        explain=service.explain,
        seconds_since_beat=lambda: time.monotonic() - service.beat_at,
    )


async def _offer(path: Path, listening: Listening, admin: AdminPort, succeeded: asyncio.Event) -> None:
    await offer(path, listening)
    succeeded.set()
    await asyncio.to_thread(admin.shutdown)
    admin.close()


def _write_line(line: str) -> None:
    """At once, so that a line is not lost with the process."""
    sys.stdout.write(line)
    sys.stdout.flush()

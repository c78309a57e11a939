"""The gateway of a node, or one alone with a snapshot file."""

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
import time
from http.server import ThreadingHTTPServer
from pathlib import Path

import uvloop

from workers.contracts import layout
from workers.gateway.access_log import AccessLog
from workers.gateway.admin import Pages, start_admin
from workers.gateway.batches.api import Limits as BatchLimits
from workers.gateway.configuration import GatewayConfig
from workers.gateway.connections import MAX_CONNECTIONS, MAX_CONNECTIONS_PER_KEY
from workers.gateway.files import EndpointsFile, SnapshotFile
from workers.gateway.handover import Listening, bind, offer, take_over
from workers.gateway.service import GatewayService
from workers.gateway.tracing.assembly import config_from_environment

logger = logging.getLogger(__name__)

_MIB = 1024 * 1024
# A request leaves nothing that refers to itself, so there is little to look for; and to look cost a seventh of its CPU.
COLLECT_AFTER_OBJECTS = (50_000, 20, 50)


def main(*, is_compiled: bool) -> None:
    arguments = _parse()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logger.info("the hot path runs %s", "compiled" if is_compiled else "interpreted")
    gc.set_threshold(*COLLECT_AFTER_OBJECTS)
    uvloop.run(_serve(arguments))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m workers.gateway", description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--node-dir", type=Path, help="directory shared with the node's agent")
    source.add_argument("--snapshot", type=Path, help="snapshot as plain JSON: serve alone, with its endpoints")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=int(os.environ.get("TOKENYARD_GATEWAY_PORT", "8080")))
    parser.add_argument("--admin-port", type=int, default=int(os.environ.get("TOKENYARD_GATEWAY_ADMIN_PORT", "8081")))
    parser.add_argument("--spool", type=Path, help="directory for usage records (default: NODE_DIR/spool)")
    parser.add_argument(
        "--batches",
        type=Path,
        help="directory for /v1/files and /v1/batches (default: NODE_DIR/batches; with --snapshot: there are none)",
    )
    parser.add_argument(
        "--max-file-mib", type=int, default=BatchLimits().max_file_bytes // _MIB, help="of a file for a batch"
    )
    parser.add_argument("--node-id", default=os.environ.get("TOKENYARD_NODE_ID", "standalone"))
    parser.add_argument(
        "--valkey-url",
        default=os.environ.get("TOKENYARD_VALKEY_URL", ""),
        help="where gateways share their limits (default: $TOKENYARD_VALKEY_URL, else this gateway keeps its own)",
    )
    parser.add_argument("--grace-s", type=float, default=5.0, help="how long streams may finish after SIGTERM")
    parser.add_argument("--handover-grace-s", type=float, default=900.0, help="the same after a successor took over")
    parser.add_argument(
        "--take-over", action="store_true", help="of a gateway that serves this node, without a refused connection"
    )
    parser.add_argument("--max-connections", type=int, default=MAX_CONNECTIONS, help="of all clients together")
    parser.add_argument("--max-connections-per-key", type=int, default=MAX_CONNECTIONS_PER_KEY)
    parser.add_argument("--engine-silence-s", type=float, default=300.0, help="give an engine up after this silence")
    parser.add_argument("--access-log", action="store_true", help="a line of JSON per request on stdout")
    arguments = parser.parse_args()
    if arguments.snapshot is not None and arguments.spool is None:
        parser.error("--snapshot needs --spool DIR: usage records must go somewhere")
    return arguments


async def _serve(arguments: argparse.Namespace) -> None:
    observers = [AccessLog(_write_line).observe] if arguments.access_log else []
    service = GatewayService(
        _config(arguments), _snapshot_file(arguments), _endpoints_file(arguments), observers=observers
    )
    stop, succeeded = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    path = _handover_path(arguments)
    listening = (take_over(path) if arguments.take_over else None) or bind(
        arguments.host, arguments.port, arguments.admin_port
    )
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


def _pages(service: GatewayService) -> Pages:
    return Pages(
        read_report=lambda: service.report,
        metrics=service.metrics,
        explain=service.explain,
        seconds_since_beat=lambda: time.monotonic() - service.beat_at,
    )


async def _offer(path: Path, listening: Listening, admin: ThreadingHTTPServer, succeeded: asyncio.Event) -> None:
    await offer(path, listening)
    succeeded.set()
    await asyncio.to_thread(admin.shutdown)
    admin.server_close()


def _handover_path(arguments: argparse.Namespace) -> Path:
    directory: Path = arguments.node_dir or arguments.spool
    directory.mkdir(parents=True, exist_ok=True)
    return directory / layout.HANDOVER_SOCKET


def _write_line(line: str) -> None:
    """At once, so that a line is not lost with the process."""
    sys.stdout.write(line)
    sys.stdout.flush()


def _config(arguments: argparse.Namespace) -> GatewayConfig:
    node_dir: Path | None = arguments.node_dir
    return GatewayConfig(
        host=arguments.host,
        port=arguments.port,
        spool=arguments.spool or arguments.node_dir / layout.SPOOL_DIRECTORY,
        gateway_id=arguments.node_id,
        node_id=arguments.node_id,
        max_file_bytes=arguments.max_file_mib * _MIB,
        batches=arguments.batches or (node_dir / layout.BATCHES_DIRECTORY if node_dir else None),
        caches=node_dir / layout.CACHES_DIRECTORY if node_dir else None,
        tracing=config_from_environment(os.environ),
        report_file=node_dir / layout.GATEWAY_REPORT_FILE if node_dir else None,
        valkey_url=arguments.valkey_url,
        grace_s=arguments.grace_s,
        handover_grace_s=arguments.handover_grace_s,
        max_connections=arguments.max_connections,
        max_connections_per_key=arguments.max_connections_per_key,
        engine_silence_s=arguments.engine_silence_s,
    )


def _snapshot_file(arguments: argparse.Namespace) -> SnapshotFile:
    if arguments.snapshot is not None:
        return SnapshotFile(arguments.snapshot, None, keep_last_good=False)
    key_file = arguments.node_dir / layout.PUBLIC_KEY_FILE
    return SnapshotFile(
        arguments.node_dir / layout.SNAPSHOT_FILE, lambda: key_file.read_text().strip(), keep_last_good=True
    )


def _endpoints_file(arguments: argparse.Namespace) -> EndpointsFile | None:
    return EndpointsFile(arguments.node_dir / layout.ENDPOINTS_FILE) if arguments.node_dir is not None else None

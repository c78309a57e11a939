"""What the gateway's command is told, and what follows from it."""

import argparse
import os
from pathlib import Path

from workers.contracts import layout
from workers.gateway.batches.api import Limits as BatchLimits
from workers.gateway.configuration import GatewayConfig
from workers.gateway.http.connections import MAX_CONNECTIONS, MAX_CONNECTIONS_PER_KEY
from workers.gateway.snapshots.files import EndpointsFile, SnapshotFile
from workers.gateway.tracing.assembly import config_from_environment

_MIB = 1024 * 1024
MAX_PROCESSES = 64


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m workers.gateway", description=__doc__)
    for add in (_add_places, _add_addresses, _add_bounds, _add_ends, _add_processes):
        add(parser)
    arguments = parser.parse_args()
    if arguments.snapshot is not None and arguments.spool is None:
        parser.error("--snapshot needs --spool DIR: usage records must go somewhere")
    if not 1 <= arguments.processes <= MAX_PROCESSES:
        parser.error(f"--processes takes 1 to {MAX_PROCESSES}")
    return arguments


def _add_places(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--node-dir", type=Path, help="directory shared with the node's agent")
    source.add_argument("--snapshot", type=Path, help="snapshot as plain JSON: serve alone, with its endpoints")
    parser.add_argument("--spool", type=Path, help="directory for usage records (default: NODE_DIR/spool)")
    parser.add_argument(
        "--batches",
        type=Path,
        help="directory for /v1/files and /v1/batches (default: NODE_DIR/batches; with --snapshot: there are none)",
    )


def _add_addresses(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=int(os.environ.get("TOKENYARD_GATEWAY_PORT", "8080")))
    parser.add_argument("--admin-port", type=int, default=int(os.environ.get("TOKENYARD_GATEWAY_ADMIN_PORT", "8081")))
    parser.add_argument("--node-id", default=os.environ.get("TOKENYARD_NODE_ID", "standalone"))
    parser.add_argument(
        "--valkey-url",
        default=os.environ.get("TOKENYARD_VALKEY_URL", ""),
        help="where gateways share their limits (default: $TOKENYARD_VALKEY_URL, else as the node is told)",
    )
    parser.add_argument("--access-log", action="store_true", help="a line of JSON per request on stdout")


def _add_bounds(parser: argparse.ArgumentParser) -> None:
    largest_file_mib = BatchLimits().max_file_bytes // _MIB
    parser.add_argument("--max-file-mib", type=int, default=largest_file_mib, help="of a file for a batch")
    parser.add_argument("--max-connections", type=int, default=MAX_CONNECTIONS, help="of all clients together")
    parser.add_argument("--max-connections-per-key", type=int, default=MAX_CONNECTIONS_PER_KEY)
    parser.add_argument("--engine-silence-s", type=float, default=300.0, help="give an engine up after this silence")


def _add_ends(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--grace-s", type=float, default=5.0, help="how long streams may finish after SIGTERM")
    parser.add_argument("--handover-grace-s", type=float, default=900.0, help="the same after a successor took over")
    parser.add_argument(
        "--take-over", action="store_true", help="of a gateway that serves this node, without a refused connection"
    )


def _add_processes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--processes",
        type=int,
        default=os.environ.get("TOKENYARD_GATEWAY_PROCESSES") or "1",
        help="that share the port and the deployments (default: $TOKENYARD_GATEWAY_PROCESSES or 1)",
    )
    # One of several, as its parent starts it: its number, and the descriptors that it inherits.
    parser.add_argument("--member", type=_numbers, help=argparse.SUPPRESS)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def config_of(arguments: argparse.Namespace) -> GatewayConfig:
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
        limits_file=node_dir / layout.LIMITS_FILE if node_dir and not arguments.valkey_url else None,
        grace_s=arguments.grace_s,
        handover_grace_s=arguments.handover_grace_s,
        max_connections=arguments.max_connections,
        max_connections_per_key=arguments.max_connections_per_key,
        engine_silence_s=arguments.engine_silence_s,
    )


def snapshot_file_of(arguments: argparse.Namespace) -> SnapshotFile:
    if arguments.snapshot is not None:
        return SnapshotFile(arguments.snapshot, None, keep_last_good=False)
    key_file = arguments.node_dir / layout.PUBLIC_KEY_FILE
    return SnapshotFile(
        arguments.node_dir / layout.SNAPSHOT_FILE, lambda: key_file.read_text().strip(), keep_last_good=True
    )


def endpoints_file_of(arguments: argparse.Namespace) -> EndpointsFile | None:
    return EndpointsFile(arguments.node_dir / layout.ENDPOINTS_FILE) if arguments.node_dir is not None else None


def handover_path_of(arguments: argparse.Namespace) -> Path:
    directory: Path = arguments.node_dir or arguments.spool
    directory.mkdir(parents=True, exist_ok=True)
    return directory / layout.HANDOVER_SOCKET

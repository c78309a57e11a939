"""`python -m workers.engines.fake --port N --served-model-name NAME`; see --help."""

import argparse
import asyncio
import logging
import signal
import sys
from contextlib import suppress

import uvloop

from workers.engines.fake.meeting import Meeting, PartLostError, follow
from workers.engines.fake.options import build_parser, engine_options, initial_faults
from workers.engines.fake.server import FakeServer

log = logging.getLogger("fake-engine")


async def run(arguments: argparse.Namespace) -> None:
    """Raises PartLostError where it is one of several parts, and another is gone."""
    if arguments.headless:
        await _follow(arguments)
    elif arguments.nnodes > 1:
        await _lead(arguments)
    else:
        await serve(arguments)


async def _follow(arguments: argparse.Namespace) -> None:
    following = asyncio.create_task(follow(arguments))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, following.cancel)
    with suppress(asyncio.CancelledError):
        await following


async def _lead(arguments: argparse.Namespace) -> None:
    meeting = Meeting(arguments.nnodes, arguments.run)
    await meeting.open(arguments.master_addr, arguments.master_port)
    serving = asyncio.create_task(_serve_once_met(arguments, meeting))
    watching = asyncio.create_task(meeting.wait_for_a_loss())
    await asyncio.wait([serving, watching], return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        raise PartLostError(f"part {watching.result() + 1} of {arguments.nnodes} is gone")
    await meeting.close()
    await serving


async def _serve_once_met(arguments: argparse.Namespace, meeting: Meeting) -> None:
    log.info("waiting for %d other parts on port %d", arguments.nnodes - 1, arguments.master_port)
    await meeting.wait()
    await serve(arguments)


async def serve(arguments: argparse.Namespace) -> None:
    options = engine_options(arguments)
    stopped = asyncio.Event()
    server = FakeServer(options, arguments.host, arguments.port)

    def stop() -> None:
        if not server.engine.faults.ignores_sigterm:
            stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    log.info("loading %s, as %s", options.served.name, arguments.profile)
    server.engine.set_faults(initial_faults(arguments))
    await asyncio.sleep(arguments.load_time_s)
    await server.open()
    log.info("serving on http://%s:%d", arguments.host, server.port)
    await stopped.wait()
    await server.close()
    log.info("stopped")


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    parser = build_parser()
    arguments = parser.parse_args()
    try:
        uvloop.run(run(arguments))
    except ValueError as error:
        parser.error(str(error))
    except PartLostError as error:
        log.error("%s", error)  # noqa: TRY400 no traceback for it
        return 1
    except OSError as error:
        log.error("cannot listen on %s:%d: %s", arguments.host, arguments.port, error)  # noqa: TRY400 no traceback for it
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

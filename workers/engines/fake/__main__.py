"""`python -m workers.engines.fake --port N --served-model-name NAME`; see --help."""

import argparse
import asyncio
import logging
import signal
import sys

import uvloop

from workers.engines.fake.options import build_parser, engine_options, initial_faults
from workers.engines.fake.server import FakeServer

log = logging.getLogger("fake-engine")


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
        uvloop.run(serve(arguments))
    except ValueError as error:
        parser.error(str(error))
    except OSError as error:
        log.error("cannot listen on %s:%d: %s", arguments.host, arguments.port, error)  # noqa: TRY400 no traceback for it
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

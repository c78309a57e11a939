"""`python -m workers.agent`: the agent of one node; its environment is described in settings.py."""

import asyncio
import logging
import os
import signal
import sys
from random import SystemRandom

from msgspec import structs

from workers.agent.core import Agent
from workers.agent.reporting.nudges import Nudges
from workers.agent.settings import AgentSettings, SettingsError, read_settings
from workers.agent.sole import TakenError, sole_agent
from workers.contracts import layout
from workers.contracts.log_lines import log_to_stderr
from workers.engines.registry import build_adapters
from workers.engines.site import find_site

log = logging.getLogger("agent")

_NUDGES_STOP_S = 2.0


async def serve(settings: AgentSettings) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    site = structs.replace(find_site(os.environ), sockets=settings.node_directory / layout.SOCKETS_DIRECTORY)
    agent = Agent(settings, build_adapters(site), os.environ, SystemRandom())
    nudges = _start_nudges(settings, agent, loop)
    try:
        await agent.run(stopping)
    finally:
        if nudges:
            await asyncio.to_thread(nudges.stop, _NUDGES_STOP_S)
    log.info("stopped")


def _start_nudges(settings: AgentSettings, agent: Agent, loop: asyncio.AbstractEventLoop) -> Nudges | None:
    if not settings.broker_url:
        return None

    def reconcile_now() -> None:
        loop.call_soon_threadsafe(agent.nudge)

    nudges = Nudges(settings.broker_url, settings.node_id, reconcile_now)
    nudges.start()
    return nudges


def main() -> int:
    log_to_stderr()
    try:
        settings = read_settings(os.environ)
    except SettingsError as error:
        log.error("%s", error)  # noqa: TRY400 - for the person who started it
        return 2
    try:
        with sole_agent(settings.node_directory):
            asyncio.run(serve(settings))
    except TakenError as error:
        log.error("%s", error)  # noqa: TRY400 - for the person who started it
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

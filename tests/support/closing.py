"""How a server in a test's own loop ends without leaving a socket to the garbage collector, which would fail a test."""

import asyncio

# Until a connection that was accepted has its transport and whoever serves it.
_TURNS = 4


async def stop_accepting(server: asyncio.Server | None) -> None:
    """To be awaited before `server.close()`: of a connection that was accepted just then, asyncio closes nothing."""
    loop = asyncio.get_running_loop()
    for listener in server.sockets if server is not None else ():
        loop.remove_reader(listener.fileno())
    for _ in range(_TURNS):
        await asyncio.sleep(0)

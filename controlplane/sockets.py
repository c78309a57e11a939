"""Which application answers which kind of connection."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.urls import path

from apps.console.consumers import LiveConsumer
from apps.rest.consumers.watch import WatchApp, is_watch
from apps.routing.consumers.agent_link import AgentLinkApp, Message, Receive, Send

Application = Callable[[Message, Receive, Send], Awaitable[None]]


def application_of(http: Any, watch: WatchApp) -> Application:
    agent_link = AgentLinkApp()
    console = AllowedHostsOriginValidator(AuthMiddlewareStack(LiveConsumer.as_asgi()))
    routes = [path("ws/agent/", agent_link), path("ws/console/", console)]  # type: ignore[arg-type]  # ASGI, not views
    websocket = URLRouter(routes)

    async def application(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and is_watch(scope):
            await watch(scope, receive, send)
        elif scope["type"] == "http":
            await http(scope, receive, send)
        elif scope["type"] == "websocket":
            await _route_socket(websocket, scope, receive, send)
        else:
            await _live(agent_link, watch, receive, send)

    return application


async def _route_socket(websocket: Any, scope: Message, receive: Receive, send: Send) -> None:
    """An unknown path is refused at the handshake; Channels would raise."""
    try:
        await websocket(scope, receive, send)
    except ValueError as error:
        if "No route found" not in str(error):
            raise
        await send({"type": "websocket.close"})


async def _live(agent_link: AgentLinkApp, watch: WatchApp, receive: Receive, send: Send) -> None:
    """The server's own start and stop."""
    await receive()
    _stop_early(watch)
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await agent_link.close()
    await send({"type": "lifespan.shutdown.complete"})


def _stop_early(watch: WatchApp) -> None:
    """The server waits for its answers to end before it says that it stops, and those of who watches have no end."""
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, partial(_stopped, signal.getsignal(number), loop, watch.stop))


def _stopped(before: Any, loop: asyncio.AbstractEventLoop, stop: Callable[[], None], number: int, frame: Any) -> None:
    loop.call_soon_threadsafe(stop)
    if callable(before):
        before(number, frame)

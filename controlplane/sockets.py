"""Which application answers which kind of connection."""

from collections.abc import Awaitable, Callable
from typing import Any

from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.urls import path

from apps.console.consumers import LiveConsumer
from apps.routing.consumers.agent_link import AgentLinkApp, Message, Receive, Send

Application = Callable[[Message, Receive, Send], Awaitable[None]]


def application_of(http: Any) -> Application:
    agent_link = AgentLinkApp()
    console = AllowedHostsOriginValidator(AuthMiddlewareStack(LiveConsumer.as_asgi()))
    routes = [path("ws/agent/", agent_link), path("ws/console/", console)]  # type: ignore[arg-type]  # ASGI, not views
    websocket = URLRouter(routes)

    async def application(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await http(scope, receive, send)
        elif scope["type"] == "websocket":
            await _route_socket(websocket, scope, receive, send)
        else:
            await _live(agent_link, receive, send)

    return application


async def _route_socket(websocket: Any, scope: Message, receive: Receive, send: Send) -> None:
    """An unknown path is refused at the handshake; Channels would raise."""
    try:
        await websocket(scope, receive, send)
    except ValueError as error:
        if "No route found" not in str(error):
            raise
        await send({"type": "websocket.close"})


async def _live(agent_link: AgentLinkApp, receive: Receive, send: Send) -> None:
    """The server's own start and stop."""
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await agent_link.close()
    await send({"type": "lifespan.shutdown.complete"})

"""How a gateway leaves: what is connected is answered, then told to go elsewhere, and none is cut off unanswered."""

import asyncio
import time
from collections.abc import Callable, Sized

from workers.gateway import errors
from workers.gateway.front.rerouting import leave_to_others
from workers.gateway.front.surface import Surface
from workers.gateway.http.connections import Connections
from workers.gateway.http.upstream import LAST_WORDS_S
from workers.gateway.limits.admission import Limits

# A client that was about to ask on an idle connection has asked by then.
IDLE_AFTER_HANDOVER_S = 2.0


async def serve_out(
    connections: Connections, stop: asyncio.Event, grace_s: float, *, may_get_more: bool = False
) -> None:
    """A successor listens. What is connected here is answered here, and then told to connect again.

    `may_get_more`: what clients have sent to another process may still be on its way here.
    """
    began_at = time.monotonic()
    for connection in list(connections):
        connection.close_after_next_answer()
    stays_until = began_at + IDLE_AFTER_HANDOVER_S if may_get_more else 0.0
    while (
        (connections or time.monotonic() < stays_until) and not stop.is_set() and time.monotonic() < began_at + grace_s
    ):
        await asyncio.sleep(0.05)
        if time.monotonic() > began_at + IDLE_AFTER_HANDOVER_S:
            _close_idle(connections)


async def drain(surface: Surface, connections: Connections, limits: Limits, grace_s: float) -> None:
    """Nothing new is taken; what runs may end within the grace, and is ended with an error after it."""
    surface.stop_reason = errors.shutting_down()
    _close_idle(connections)
    limits.stop()
    for exchange in list(surface.exchanges):
        if exchange.is_waiting:
            leave_to_others(surface.intake, exchange)
    await _wait_for(connections, grace_s, lambda: _close_idle(connections))
    for exchange in list(surface.exchanges):
        exchange.give_up(errors.shutting_down())
    await _wait_for(surface.exchanges, LAST_WORDS_S)
    await asyncio.sleep(0.05)  # lets the last errors leave


def _close_idle(connections: Connections) -> None:
    for connection in list(connections):
        connection.close_when_idle()


async def _wait_for(ending: Sized, grace_s: float, meanwhile: Callable[[], None] | None = None) -> None:
    deadline = time.monotonic() + grace_s
    while ending and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
        if meanwhile is not None:
            meanwhile()

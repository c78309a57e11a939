"""How long an engine has been silent that should have answered, by our own requests alone."""

from collections.abc import Iterable

from workers.scheduling.endpoint import EndpointModel

USUAL_S = 1.0
"""Between two pieces of news of a busy engine; nothing is made of less."""


def overdue_s(endpoint: EndpointModel, fleet: Iterable[EndpointModel], now: float) -> float:
    """Since when the first of its answers should have come to its end, while others of the fleet were heard.

    It is as long again until something comes, as far as can be told. Not the first token is waited for but the end,
    since answers may come whole. An engine that hangs would else look idle as soon as all that it was sent is due.
    """
    if not endpoint.prefilling or now - endpoint.watchdog.heard_at <= USUAL_S:
        return 0.0
    step_s = endpoint.decode_step_s()
    due_at = min(ticket.prefill_until + ticket.output_tokens * step_s for ticket in endpoint.prefilling.values())
    silent_since = max(due_at, endpoint.watchdog.heard_at)
    heard_at = max(other.watchdog.heard_at for other in fleet)
    return max(0.0, now - silent_since) if heard_at - silent_since > USUAL_S else 0.0

"""How an endpoint makes up for steps that are longer than its requests may wait for a token."""

from workers.scheduling.endpoint import EndpointModel


def pause_for_pace(endpoint: EndpointModel, new_tokens: int, margin: float) -> None:
    """After full steps longer than the tightest pace among the running, short steps must make up for them.

    `new_tokens` were just sent; full steps may take `margin` of the pace. Where steps without prefill are too long as
    well, there is nothing to make up with, and whoever waits would wait for nothing.
    """
    target_s = margin * endpoint.paces.tightest_s()
    full_s = endpoint.full_s
    if full_s <= target_s or endpoint.is_seen_to_keep(target_s):
        return
    decode_s = endpoint.decode_step_s()
    if decode_s >= target_s:
        return
    steps = new_tokens / max(1, endpoint.max_batched_tokens - endpoint.decoding)
    rest_s = max(0.1 * target_s, target_s - decode_s)
    endpoint.paused_until = endpoint.prefill_until + steps * (full_s - target_s) * decode_s / rest_s

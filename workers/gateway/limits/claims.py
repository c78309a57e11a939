"""What one request wants of one account, and whether that is there."""

from msgspec import Struct

from workers.contracts.limits import MONEY_KINDS, PICO_PER_NANO, LimitRule
from workers.contracts.pricing import cost_pico_usd
from workers.gateway.limits.account import Account
from workers.gateway.limits.rulebook import Demand

# As long as a gateway keeps news to itself: what it says later than that after a moment has all that was before it.
NEWS_S = 0.05


class Claim(Struct, eq=False):
    account: Account
    amount: int


class Shortfall(Struct, frozen=True, kw_only=True, eq=False):
    """Why a request is refused. `is_unknown`: nobody could tell how much is left."""

    claim: Claim
    is_unknown: bool = False


def is_used_up(claim: Claim, since: float) -> bool:
    """Only somebody who was asked after the request came can say so.

    Of what is promised to requests elsewhere it waits until every gateway that promised has told what ended before, or
    is taken for dead, and its requests with it.
    """
    account, told = claim.account, claim.account.told
    if told is None or account.told_at < since or told.state != "ready" or claim.amount <= account.remaining:
        return False
    all_told_at = account.told_at - told.silent_ms / 1000
    return claim.amount > told.limit - told.used or all_told_at >= since + NEWS_S


def amount_of(rule: LimitRule, demand: Demand) -> int:
    """What to reserve. A bound that was only learned never keeps a request out of an account that is empty."""
    if rule.kind == "requests_per_minute":
        return 0 if demand.is_counted else 1
    if rule.kind == "concurrent_requests":
        return 1
    if rule.kind in MONEY_KINDS:
        cost = cost_pico_usd(
            demand.price, input_tokens=demand.input_tokens, cached_input_tokens=0, output_tokens=demand.output_tokens
        )
        amount = -(-cost // PICO_PER_NANO)
    else:
        amount = demand.input_tokens + demand.output_tokens
    if demand.is_output_known:
        return amount
    return min(amount, rule.amount if rule.burst is None else rule.burst)

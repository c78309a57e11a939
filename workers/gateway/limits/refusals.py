"""What a client is told of its limits: in headers on every answer, and in the error that refuses it."""

from datetime import UTC, datetime
from decimal import Decimal
from math import ceil

import msgspec

from workers.contracts.limits import MONEY_KINDS, SPANS, Block
from workers.gateway.errors import GatewayError
from workers.gateway.http.heads import Headers
from workers.gateway.limits.account import Account, shape_of
from workers.gateway.limits.authority import WINDOW_MS
from workers.gateway.limits.claims import Claim, Shortfall

WARNING_HEADER = b"x-tokenyard-limit-warning"
_RATE_NAMES = {"requests_per_minute": b"requests", "tokens_per_minute": b"tokens"}
_SLOT_RETRY_S = 1
_UNKNOWN_RETRY_S = 2
_PERIOD_ADVICE = "Wait until then, or ask for a raise on your tenant's Limits page."


class LimitGatewayError(GatewayError):
    """With the headers that tell of limits."""

    def __init__(
        self, status: int, code: str, message: str, *, retry_after_s: int | None = None, headers: Headers | None = None
    ) -> None:
        super().__init__(status, code, message, retry_after_s=retry_after_s)
        self._headers = headers or []

    def body(self) -> bytes:
        if self.status != 402:  # noqa: PLR2004 - HTTP
            return super().body()
        error = {"message": self.message, "type": "insufficient_quota", "param": None, "code": self.code}
        return msgspec.json.encode({"error": error})

    def headers(self) -> Headers:
        return [*super().headers(), *self._headers]


def error_of(shortfall: Shortfall, claims: list[Claim], unix_time: float) -> GatewayError:
    account, kind = shortfall.claim.account, shortfall.claim.account.rule.kind
    headers = rate_headers(claims, is_admitted=False)
    if shortfall.is_unknown:
        return _unknown(account, headers)
    is_used_up = kind in SPANS and account.remaining <= 0
    if kind in MONEY_KINDS or is_used_up:
        return _period_over(shortfall, headers, unix_time)
    if shortfall.claim.amount > _limit_of(account):
        return _too_large(shortfall, headers)
    if kind == "concurrent_requests":
        return _slots_taken(account, headers)
    if kind in SPANS:
        return _period_over(shortfall, headers, unix_time)
    return _rate_reached(shortfall, headers, unix_time)


def blocked(block: Block) -> GatewayError:
    until = f"until {_clock(block.until)}" if block.until is not None else "until an operator lifts it"
    reason = f" Reason: {block.reason}." if block.reason else ""
    message = f"Requests of this {_WORDS[block.scope]} are blocked {until}.{reason} Ask your operator."
    return LimitGatewayError(403, "blocked", message)


def rate_headers(claims: list[Claim], *, is_admitted: bool) -> Headers:
    """OpenAI's, each of the limit with the least left of its kind, and a warning where a soft limit is passed."""
    tightest: dict[str, Account] = {}
    warnings = []
    for claim in claims:
        account = claim.account
        if account.is_near:
            warnings.append(_warning(account))
        if account.rule.kind in _RATE_NAMES and account.told is not None:
            known = tightest.get(account.rule.kind)
            if known is None or account.remaining < known.remaining:
                tightest[account.rule.kind] = account
    headers = [
        header for kind, account in tightest.items() for header in _openai(_RATE_NAMES[kind], account, is_admitted)
    ]
    return [*headers, (WARNING_HEADER, "; ".join(warnings).encode())] if warnings else headers


def _openai(name: bytes, account: Account, is_admitted: bool) -> Headers:
    return [
        (b"x-ratelimit-limit-" + name, b"%d" % _limit_of(account)),
        (b"x-ratelimit-remaining-" + name, b"%d" % max(account.remaining, 0)),
        (b"x-ratelimit-reset-" + name, duration(_reset_ms(account, is_admitted)).encode()),
    ]


def _reset_ms(account: Account, is_admitted: bool) -> int:
    """Until all of the limit is there again, if nobody uses more of it."""
    told = account.told
    if told is None or told.limit <= 0:
        return 0
    if shape_of(account.rule) == "bucket":
        amount = max(account.rule.amount, 1)
        return max(told.limit - account.remaining, 0) * WINDOW_MS // amount
    return WINDOW_MS if is_admitted else told.reset_ms


def duration(milliseconds: int) -> str:
    """As OpenAI writes it: 120ms, 1s, 6m0s."""
    if milliseconds < 1000:  # noqa: PLR2004 - a second
        return f"{milliseconds}ms"
    minutes, seconds = divmod(ceil(milliseconds / 1000), 60)
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


# -- one error each


def _rate_reached(shortfall: Shortfall, headers: Headers, unix_time: float) -> GatewayError:
    account = shortfall.claim.account
    retry_ms = account.told.retry_ms if account.told is not None else 0
    retry_s = max(ceil((retry_ms or 1000) / 1000), 1)
    message = (
        f"{describe(account)} is reached: {_left(account)} left, this request needs {shortfall.claim.amount}. "
        f"It fits again in {duration(retry_s * 1000)}, at {_clock(unix_time + retry_s)}. "
        "Wait that long, send fewer at once, or ask for a raise on your tenant's Limits page."
    )
    return LimitGatewayError(429, "rate_limit_exceeded", message, retry_after_s=retry_s, headers=headers)


def _slots_taken(account: Account, headers: Headers) -> GatewayError:
    message = (
        f"{describe(account)} is reached: all of them run or wait for an engine. "
        "A place is free as soon as one of them ends; send fewer at once, or ask for a raise."
    )
    return LimitGatewayError(429, "too_many_concurrent_requests", message, retry_after_s=_SLOT_RETRY_S, headers=headers)


def _period_over(shortfall: Shortfall, headers: Headers, unix_time: float) -> GatewayError:
    account = shortfall.claim.account
    ends_at, needed = account.period.end, _shown(account, shortfall.claim.amount)
    left = f"{describe(account)} is used up: {_left(account)} left, and this request may need {needed}."
    if ends_at == float("inf"):
        advice = "It does not reset; ask for a raise on your tenant's Limits page, or use a model that is free."
        return LimitGatewayError(402, "budget_exhausted", f"{left} {advice}", headers=headers)
    retry_s = max(ceil(ends_at - unix_time), 1)
    message = f"{left} It resets at {_clock(ends_at)}. {_PERIOD_ADVICE}"
    if account.rule.kind in MONEY_KINDS:
        return LimitGatewayError(402, "budget_exhausted", message, retry_after_s=retry_s, headers=headers)
    return LimitGatewayError(429, "quota_exhausted", message, retry_after_s=retry_s, headers=headers)


def _too_large(shortfall: Shortfall, headers: Headers) -> GatewayError:
    message = (
        f"This request may need {shortfall.claim.amount}, more than all of it: {describe(shortfall.claim.account)}. "
        "Lower its token limit or its prompt; waiting does not help."
    )
    return LimitGatewayError(429, "larger_than_limit", message, headers=headers)


def _unknown(account: Account, headers: Headers) -> GatewayError:
    limit = describe(account).removeprefix("The ")
    message = f"How much is left of the {limit} cannot be told now. Send the request again in {_UNKNOWN_RETRY_S} s."
    return LimitGatewayError(429, "limit_unavailable", message, retry_after_s=_UNKNOWN_RETRY_S, headers=headers)


# -- words

_WORDS = {"tenant": "tenant", "member": "member's keys", "end_user": "user", "key": "key"}


def describe(account: Account) -> str:
    """`The limit of 60 requests per minute of this tenant on chat (limit 0192…)`."""
    rule = account.rule
    model = f" on `{rule.model}`" if rule.model else ""
    amount = _shown(account, _limit_of(account) if rule.burst is None else rule.amount)
    kind = rule.kind.replace("cost_", "").replace("_", " ").replace("total", "in total")
    if rule.burst is not None:
        kind += f", {_limit_of(account)} at once,"
    return f"The limit of {amount} {kind} of this {_WORDS[rule.scope]}{model} (limit {rule.limit_id})"


def _limit_of(account: Account) -> int:
    rule = account.rule
    if account.told is not None:
        return account.told.limit
    return rule.amount if rule.burst is None else rule.burst


def _left(account: Account) -> str:
    return _shown(account, max(account.remaining, 0))


def _shown(account: Account, units: int) -> str:
    return f"${Decimal(units).scaleb(-9).normalize():f}" if account.rule.kind in MONEY_KINDS else f"{units}"


def _warning(account: Account) -> str:
    limit = _limit_of(account)
    percent = 100 * (limit - account.remaining) // limit if limit > 0 else 100
    return f"{account.rule.kind} at {percent}%; limit {account.rule.limit_id}"


def _clock(unix_time: float) -> str:
    return datetime.fromtimestamp(unix_time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

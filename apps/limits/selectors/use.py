"""How much of a limit is used now, as the authority in Valkey knows it; None where nobody can say."""

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from redis.exceptions import RedisError

from apps.common.valkey import blocking_client
from apps.limits.models import Limit
from apps.limits.selectors.compiled import rule_of
from apps.limits.selectors.limits import get_settings
from workers.contracts import limits as contract
from workers.contracts.limit_periods import period_at

log = logging.getLogger(__name__)

WINDOW_MS = 60_000
LIVE_FOR_MS = 3_000


@dataclass(frozen=True, kw_only=True)
class LimitUse:
    """`used` None is unknown, or a limit that each has for itself. `limit` is what holds now, raises included."""

    limit: Limit
    amount: int
    used: int | None
    ends_at: datetime | None

    @property
    def percent(self) -> int | None:
        if self.used is None:
            return None
        return min(100 * self.used // self.amount, 100) if self.amount else 100

    @property
    def is_near(self) -> bool:
        soft = self.limit.soft_percent
        return self.percent is not None and soft is not None and self.percent >= soft


def list_use(*, limits: Sequence[Limit], tenant_id: UUID, now: datetime) -> list[LimitUse]:
    """In the same order."""
    zone = ZoneInfo(get_settings(tenant_id).time_zone)
    periods = [period_at(limit.kind, zone, now.timestamp()) for limit in limits]
    accounts = [_account(limit, tenant_id, period) for limit, period in zip(limits, periods, strict=True)]
    used = _used_of(limits, accounts)
    return [
        LimitUse(limit=limit, amount=amount_now(limit, now), used=used.get(account or ""), ends_at=_end_of(period))
        for limit, period, account in zip(limits, periods, accounts, strict=True)
    ]


def amount_now(limit: Limit, now: datetime) -> int:
    is_raised = limit.raised_until is not None and now < limit.raised_until
    return limit.raised_amount if is_raised and limit.raised_amount is not None else limit.amount


def _account(limit: Limit, tenant_id: UUID, period: contract.Period) -> str | None:
    if limit.subject == contract.EACH:
        return None
    subject = contract.subject_name(str(limit.tenant_id or tenant_id), limit.subject)
    return contract.account_of(rule_of(limit), period, subject)


def _end_of(period: contract.Period) -> datetime | None:
    if period.end == float("inf"):
        return None
    return datetime.fromtimestamp(period.end, UTC)


def _used_of(limits: Iterable[Limit], accounts: Iterable[str | None]) -> dict[str, int]:
    known = {account: limit for limit, account in zip(limits, accounts, strict=True) if account}
    try:
        with blocking_client().pipeline(transaction=False) as pipeline:
            pipeline.hgetall(contract.HOLDERS_KEY)
            for account in known:
                pipeline.hgetall(contract.ACCOUNT_KEY + account)
                pipeline.lrange(contract.WINDOW_KEY + account, 0, -1)
            holders, *found = pipeline.execute()
    except (RedisError, OSError) as error:
        log.warning("use of limits is unknown", extra={"error": str(error)})
        return {}
    now_ms = time.time() * 1000
    live = {name.decode() for name, at in holders.items() if now_ms - int(at) <= LIVE_FOR_MS}
    pairs = zip(known.items(), found[::2], found[1::2], strict=True)
    return {account: _sum(limit, _texts(fields), window, live, now_ms) for (account, limit), fields, window in pairs}


def _texts(fields: dict[bytes, bytes]) -> dict[str, float]:
    return {name.decode(): float(value) for name, value in fields.items()}


def _sum(limit: Limit, fields: dict[str, float], window: list[bytes], live: set[str], now_ms: float) -> int:
    """As authority.lua does it, with what is promised to requests that run."""
    promised = sum(int(value) for name, value in fields.items() if name.startswith("u:") and name[2:] in live)
    if limit.kind in contract.SPANS:
        return promised + spent_of(fields)
    if limit.kind == "concurrent_requests":
        return promised
    if limit.burst is not None:
        back = limit.amount * max(now_ms - fields.get("debt_at", now_ms), 0) / WINDOW_MS
        return promised + int(max(fields.get("debt", 0) - back, 0))
    spends = [entry.split() for entry in window]
    return promised + sum(int(count) for ends_ms, count in spends if int(ends_ms) > now_ms)


def spent_of(fields: dict[str, float]) -> int:
    """Of a period: by processes that are gone, and of each other the more of what it said and what records say."""
    holders = {name[2:] for name in fields if name[:2] in {"s:", "c:"}}
    apart = sum(int(max(fields.get(f"s:{one}", 0), fields.get(f"c:{one}", 0))) for one in holders)
    return int(fields.get("base", 0)) + apart

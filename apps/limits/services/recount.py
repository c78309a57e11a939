"""Use of periods in Valkey, put right from usage records: after Valkey or a gateway died, for new limits and prices.

What gateway processes that live have spent they say themselves; of the others the records know. Each account is
written only if no process has begun to use it since it was read; else the next turn does it.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import transaction
from django.db.models import F
from redis.exceptions import RedisError

from apps.common.services import lead
from apps.common.tasks_by_name import enqueue_on_commit
from apps.common.valkey import blocking_client
from apps.limits.models import Limit
from apps.limits.policies import Counted, put_together
from apps.limits.selectors.compiled import rule_of, zones_of
from apps.limits.selectors.truth import sum_by_subject
from apps.tenants.models import Tenant
from apps.tenants.services import PUBLISH
from apps.usage.selectors.reratings import count_applied_reratings
from workers.contracts import limits as contract
from workers.contracts.limit_periods import period_at

log = logging.getLogger(__name__)

EACH_S = 3600
SECOND_AFTER_S = 10  # for records that were on their way when there was no limit yet
AFTER_A_DEATH_EACH_S = 5
SHARE_OF_TIME = 20  # a count that took a second is not made again for so many
SILENT_MS = 3_000
MAY_REPORT_FOR_MS = 900_000
KEEP_S = 40 * 86_400
FOREVER_S = 10 * 365 * 86_400

# KEYS: the account, the set of its limit's accounts. ARGV: its name, seconds to keep, base, number of holders apart,
# each with what records say, then the holders that go. 0 when somebody else has begun to use it.
_WRITE = """
local known = {}
local apart = tonumber(ARGV[4])
for i = 1, apart do known[ARGV[3 + 2 * i]] = true end
for i = 5 + 2 * apart, #ARGV do known[ARGV[i]] = true end
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(name, 1, 2) == 's:' and not known[string.sub(name, 3)] then return 0 end
end
redis.call('HSET', KEYS[1], 'base', ARGV[3])
for i = 1, apart do redis.call('HSET', KEYS[1], 'c:' .. ARGV[3 + 2 * i], ARGV[4 + 2 * i]) end
for i = 5 + 2 * apart, #ARGV do
  for _, kind in ipairs({'q:', 'g:', 's:', 'r:', 'u:', 'c:'}) do redis.call('HDEL', KEYS[1], kind .. ARGV[i]) end
end
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('EXPIRE', KEYS[2], ARGV[2])
return 1
"""


@dataclass(frozen=True)
class _Holders:
    """`alive` may still report; `has_died` says that one fell silent lately."""

    alive: frozenset[str]
    has_died: bool


@dataclass(frozen=True)
class _Count:
    """When a period was counted last, how long that took, and how often it has been."""

    at_s: float
    took_s: float
    times: int


def recount_limits(*, holder: str, now: datetime) -> int:
    """How many limits' periods were counted; 0 also when another process leads or Valkey is away."""
    with lead("limits", holder=holder) as fence:
        if fence is None:
            return 0
        try:
            applied = count_applied_reratings()
            return sum(_turn_of(limit, applied, now) for limit in Limit.objects.filter(kind__in=contract.SPANS))
        except (RedisError, OSError) as error:
            log.warning("use of limits was not counted", extra={"error": str(error)})
            return 0


def _turn_of(limit: Limit, applied: int, now: datetime) -> int:
    is_in_old_prices = limit.kind in contract.MONEY_KINDS and limit.counted_reratings != applied
    return _count_anew(limit, applied, now) if is_in_old_prices else _recount_if_due(limit, now)


def _count_anew(limit: Limit, applied: int, now: datetime) -> int:
    """Under another name, of which gateways hear when it is counted: what they said themselves is in the old prices."""
    before = limit.reset_count
    limit.reset_count += 1
    counted = _recount_if_due(limit, now)
    with transaction.atomic():
        anew = {"reset_count": limit.reset_count, "revision": F("revision") + 1, "counted_reratings": applied}
        Limit.objects.filter(pk=limit.pk, reset_count=before).update(**anew)
        enqueue_on_commit(PUBLISH)
    return counted


def _recount_if_due(limit: Limit, now: datetime) -> int:
    client: Any = blocking_client()
    holders = _read_holders()
    counted = 0
    for zone, tenants in _tenants_by_zone(limit).items():
        for period in _periods(limit.kind, ZoneInfo(zone), now):
            marker = contract.marker_of(rule_of(limit), period)
            began_s, before = time.monotonic(), _read_count(client.get(contract.COUNTED_KEY + marker))
            if before is not None and not _is_due(before, holders, now):
                continue
            if _recount(client, limit, tenants, period, now):
                times, took_s = (1 if before is None else before.times + 1), time.monotonic() - began_s
                note = f"{now.timestamp():.0f} {took_s:.3f} {times}"
                client.set(contract.COUNTED_KEY + marker, note, ex=_keep_s(period))
                counted += 1
    return counted


def _read_count(noted: bytes | None) -> _Count | None:
    """A former release noted no times, and no duration before that."""
    if noted is None:
        return None
    said = noted.decode().split(" ")
    at_s, took_s, times = [*said, *("0", "2")[len(said) - 1 :]]
    return _Count(float(at_s), float(took_s), int(times))


def _is_due(count: _Count, holders: _Holders, now: datetime) -> bool:
    each_s = AFTER_A_DEATH_EACH_S if holders.has_died else SECOND_AFTER_S if count.times == 1 else EACH_S
    return now.timestamp() - count.at_s >= max(each_s, count.took_s * SHARE_OF_TIME)


def _periods(kind: str, zone: ZoneInfo, now: datetime) -> Iterator[contract.Period]:
    """The current one and the next, so that nobody has to wait at midnight, even with the control plane away."""
    current = period_at(kind, zone, now.timestamp())
    yield current
    if current.end != float("inf"):
        yield period_at(kind, zone, current.end)


def _recount(client: Any, limit: Limit, tenants: list[UUID], period: contract.Period, now: datetime) -> bool:
    """Records are read before the holders: what they report meanwhile is more, never less."""
    rule = rule_of(limit)
    marker = contract.marker_of(rule, period)
    used: dict[str, dict[str, int]] = {}
    for tenant_id in tenants:
        used |= sum_by_subject(limit=limit, holder=tenant_id, period=period, now=now)
    truth = {contract.account_of(rule, period, subject): by_boot for subject, by_boot in used.items()}
    alive = _read_holders().alive
    known = {name.decode() for name in client.smembers(contract.ACCOUNTS_OF_KEY + marker)}
    keep_s = _keep_s(period)
    written = [
        _write(client, marker, name, truth.get(name, {}), alive=alive, keep_s=keep_s)
        for name in sorted(known | set(truth))
    ]
    return all(written)


def _write(
    client: Any,
    marker: str,
    account: str,
    truth: Mapping[str, int],
    *,
    alive: frozenset[str],
    keep_s: int,
) -> bool:
    key = contract.ACCOUNT_KEY + account
    fields = {name.decode(): value for name, value in client.hgetall(key).items()}
    reported = {name[2:]: int(float(value)) for name, value in fields.items() if name.startswith("s:")}
    counted = put_together(truth, reported, alive)
    arguments = _arguments(account, counted, keep_s)
    return bool(client.eval(_WRITE, 2, key, contract.ACCOUNTS_OF_KEY + marker, *arguments))


def _arguments(account: str, counted: Counted, keep_s: int) -> list[str]:
    apart = [text for holder, used in counted.by_holder.items() for text in (holder, str(used))]
    return [account, str(keep_s), str(counted.base), str(len(counted.by_holder)), *apart, *sorted(counted.dropped)]


def _read_holders() -> _Holders:
    client: Any = blocking_client()
    clock_s, clock_us = client.time()
    now_ms = clock_s * 1000 + clock_us // 1000
    ages_ms = {name.decode(): now_ms - int(at) for name, at in client.hgetall(contract.HOLDERS_KEY).items()}
    return _Holders(
        alive=frozenset(name for name, age_ms in ages_ms.items() if age_ms <= MAY_REPORT_FOR_MS),
        has_died=any(SILENT_MS < age_ms <= MAY_REPORT_FOR_MS for age_ms in ages_ms.values()),
    )


def _tenants_by_zone(limit: Limit) -> dict[str, list[UUID]]:
    """Whose accounts there are. A tenant's own limit also counts in the zones of those below, which its rule serves."""
    if limit.tenant_id is None:
        tenants = list(Tenant.objects.values_list("pk", flat=True))
        zones = zones_of(tenants)
        by_zone: dict[str, list[UUID]] = {}
        for tenant_id in tenants:
            by_zone.setdefault(zones.get(tenant_id, "UTC"), []).append(tenant_id)
        return by_zone
    below = list(Tenant.objects.under(limit.tenant_id).values_list("pk", flat=True))
    return {zone: [limit.tenant_id] for zone in {zones_of(below).get(one, "UTC") for one in below}}


def _keep_s(period: contract.Period) -> int:
    if period.end == float("inf"):
        return FOREVER_S
    length = datetime.fromtimestamp(period.end, UTC) - datetime.fromtimestamp(period.start, UTC)
    return int(length.total_seconds()) + KEEP_S

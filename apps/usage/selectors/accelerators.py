"""What serving really cost: accelerator time, whose it was, and what nobody used; adds up to all of it."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import QuerySet

from apps.common.errors import InvalidInputError
from apps.fleet.selectors import name_nodes
from apps.registry.models import ModelVersion
from apps.usage.models import AcceleratorPrice, AcceleratorSlot, EngineShare
from apps.usage.policies.accelerators import PriceLine, line_for
from apps.usage.policies.allocation import HOUR_US, Allocation, Amount, Bearer, NodeSlot, allocate
from apps.usage.policies.pricing import usd_from_pico
from apps.usage.policies.slots import whole_slots
from apps.usage.selectors.reports import COLUMN_OF, name_values
from apps.usage.selectors.sums import UsageScope, sums_by

GROUPS = ("tenant", "version", "model")
PARALLEL_ARGS = ("tensor_parallel_size", "pipeline_parallel_size")
_SECOND = Decimal(1_000_000)
_UTC = ZoneInfo("UTC")


@dataclass(frozen=True, kw_only=True)
class CostRow:
    """`billed_usd` is by the price book, `cost_usd` what it really cost: own use and the idle time borne."""

    id: str
    name: str
    used_s: Decimal
    idle_s: Decimal
    used_usd: Decimal
    idle_usd: Decimal
    billed_usd: Decimal

    @property
    def cost_usd(self) -> Decimal:
        return self.used_usd + self.idle_usd

    @property
    def margin_usd(self) -> Decimal:
        return self.billed_usd - self.cost_usd


@dataclass(frozen=True, kw_only=True)
class NodeCost:
    """One accelerator of a node. `cost_usd` None: its price is not known for some of the time."""

    node_id: UUID
    node: str
    name: str
    ownership: str
    available_s: Decimal
    cost_usd: Decimal | None


@dataclass(frozen=True, kw_only=True)
class CostReport:
    """Rows and `unborne` together are `available`. `unpriced_s` of it have no accelerator price and count as free."""

    rows: list[CostRow]
    accelerators: list[NodeCost]
    available_s: Decimal
    used_s: Decimal
    idle_s: Decimal
    unborne_s: Decimal
    unborne_usd: Decimal
    used_usd: Decimal
    idle_usd: Decimal
    cost_usd: Decimal
    unpriced_s: Decimal


def list_accelerator_prices() -> QuerySet[AcceleratorPrice]:
    return AcceleratorPrice.objects.all()


def list_price_lines() -> list[PriceLine]:
    rows = AcceleratorPrice.objects.order_by("id").values_list(
        "accelerator_name", "node_id", "ownership", "hour_pico_usd", "effective_from"
    )
    return [PriceLine(*row) for row in rows]


def report_cost(*, scope: UsageScope, group_by: str) -> CostReport:
    """For those who may see every tenant: idle time is shared among all. The range is rounded inwards to slots."""
    if group_by not in GROUPS:
        raise InvalidInputError(f"can group by {', '.join(GROUPS)}, not by {group_by!r}")
    whole = whole_slots(scope.start, scope.end)
    if whole is None:
        raise InvalidInputError("the range holds no whole quarter of an hour")
    supply = _Supply(*whole)
    allocation = allocate(_node_slots(supply, group_by, *whole))
    rows = _rows(allocation, scope, group_by)
    return CostReport(
        rows=sorted(rows, key=lambda row: (-row.cost_usd, row.name)),
        accelerators=supply.accelerators(),
        available_s=_s(allocation.available),
        used_s=_s(allocation.used),
        idle_s=_s(allocation.idle),
        unborne_s=_s(allocation.unborne),
        unborne_usd=usd_from_pico(allocation.unborne.cost_pico_usd),
        used_usd=usd_from_pico(allocation.used.cost_pico_usd),
        idle_usd=usd_from_pico(allocation.idle.cost_pico_usd),
        cost_usd=usd_from_pico(allocation.available.cost_pico_usd),
        unpriced_s=Decimal(supply.unpriced_us) / _SECOND,
    )


class _Supply:
    """The accelerators' time and cost, by (slot, node) and by accelerator."""

    def __init__(self, start: datetime, end: datetime) -> None:
        self.by_slot: dict[tuple[datetime, UUID], Amount] = defaultdict(Amount)
        self.unpriced_us = 0
        self._by_accelerator: dict[tuple[UUID, UUID, str, str], Amount] = defaultdict(Amount)
        self._unpriced: set[tuple[UUID, UUID, str, str]] = set()
        lines = list_price_lines()
        rows = AcceleratorSlot.objects.filter(slot__gte=start, slot__lt=end)
        for row in rows.order_by("slot", "accelerator_id").iterator(chunk_size=5000):
            self._take(row, line_for(lines, name=row.name, node_id=row.node_id, at=row.slot))

    def _take(self, row: AcceleratorSlot, line: PriceLine | None) -> None:
        cost = (row.available_us * line.hour_pico_usd + HOUR_US // 2) // HOUR_US if line else 0
        key = (row.node_id, row.accelerator_id, row.name, line.ownership if line else "")
        self.by_slot[row.slot, row.node_id].add(row.available_us, cost)
        self._by_accelerator[key].add(row.available_us, cost)
        if line is None:
            self.unpriced_us += row.available_us
            self._unpriced.add(key)

    def accelerators(self) -> list[NodeCost]:
        names = name_nodes({node_id for node_id, *_ in self._by_accelerator})
        found = [
            NodeCost(
                node_id=key[0],
                node=names.get(key[0], str(key[0])),
                name=key[2],
                ownership=key[3],
                available_s=_s(amount),
                cost_usd=None if key in self._unpriced else usd_from_pico(amount.cost_pico_usd),
            )
            for key, amount in self._by_accelerator.items()
        ]
        return sorted(found, key=lambda each: (each.node, each.name))


def _node_slots(supply: _Supply, group_by: str, start: datetime, end: datetime) -> Iterator[NodeSlot[Any]]:
    used: dict[tuple[datetime, UUID], dict[Any, int]] = defaultdict(lambda: defaultdict(int))
    width = _accelerators_per_engine()
    rows = EngineShare.objects.filter(slot__gte=start, slot__lt=end).values_list(
        "slot", "node_id", "version_id", "busy_us", COLUMN_OF[group_by]
    )
    for slot, node_id, version_id, busy_us, key in rows.order_by("slot", "node_id", "id").iterator(chunk_size=5000):
        used[slot, node_id][key] += busy_us * width.get(version_id, 1)
    for (slot, node_id), available in supply.by_slot.items():
        yield NodeSlot(node_id, available, used.get((slot, node_id), {}))


def _accelerators_per_engine() -> dict[UUID | None, int]:
    found: dict[UUID | None, int] = {}
    for version_id, args in ModelVersion.objects.values_list("pk", "engine_args"):
        for name in PARALLEL_ARGS:
            count = args.get(name, 1)
            found[version_id] = found.get(version_id, 1) * (count if isinstance(count, int) and count > 0 else 1)
    return found


def _rows(allocation: Allocation[Any], scope: UsageScope, group_by: str) -> list[CostRow]:
    billed = {
        key[1]: sums["cost_usd"]
        for key, sums in sums_by(scope=scope, columns=[COLUMN_OF[group_by]], time=None, zone=_UTC).items()
    }
    subjects = dict.fromkeys([*allocation.bearers, *billed])
    names = name_values(group_by, set(subjects))
    return [
        _row_of(subject, names.get(subject, str(subject or "")), allocation.bearers.get(subject), billed.get(subject))
        for subject in subjects
    ]


def _row_of(subject: Any, name: str, bearer: Bearer | None, billed: Decimal | None) -> CostRow:
    borne = bearer or Bearer()
    return CostRow(
        id=str(subject or ""),
        name=name,
        used_s=_s(borne.used),
        idle_s=_s(borne.idle),
        used_usd=usd_from_pico(borne.used.cost_pico_usd),
        idle_usd=usd_from_pico(borne.idle.cost_pico_usd),
        billed_usd=billed or Decimal(),
    )


def _s(amount: Amount) -> Decimal:
    return Decimal(amount.time_us) / _SECOND

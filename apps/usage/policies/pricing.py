"""The price book: which line was in force, and what a request costs by it. Pure; the formula: contracts/pricing.py."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from workers.contracts.pricing import BATCH_CLASS, WHOLE_E8, charged, discounted, listed_pico_usd
from workers.contracts.snapshot import Price

T = TypeVar("T")
PICO_PER_USD = 10**12


@dataclass(frozen=True)
class Dated(Generic[T]):
    """In force from `since` until the next of the same subject."""

    since: datetime
    value: T


@dataclass(frozen=True)
class ListPrice:
    """`line_id` is the price book's, None in tests and previews."""

    price: Price
    batch_discount_bp: int = 0
    line_id: UUID | None = None


@dataclass(frozen=True)
class Tariff:
    """What a tenant pays, discounts included, and the line of the price book that says so."""

    price: Price
    line_id: UUID | None = None


class Timeline(Generic[T]):
    """Of two values from the same moment the one that is given later holds."""

    def __init__(self, dated: Iterable[Dated[T]]) -> None:
        self._dated = sorted(dated, key=lambda each: each.since)
        self._starts = [each.since for each in self._dated]

    @property
    def starts(self) -> Sequence[datetime]:
        return self._starts

    def at(self, moment: datetime) -> T | None:
        place = bisect_right(self._starts, moment)
        return self._dated[place - 1].value if place else None


EMPTY: Timeline[ListPrice] = Timeline([])
NO_DISCOUNTS: Timeline[int] = Timeline([])


@dataclass(frozen=True)
class Book:
    """Prices by version and by model, the models of the versions, discounts by tenant and model (None: every model)."""

    by_version: dict[UUID, Timeline[ListPrice]] = field(default_factory=dict)
    by_model: dict[UUID, Timeline[ListPrice]] = field(default_factory=dict)
    model_of: dict[UUID, UUID] = field(default_factory=dict)
    discounts: dict[tuple[UUID, UUID | None], Timeline[int]] = field(default_factory=dict)

    def list_price(self, version_id: UUID, at: datetime) -> ListPrice | None:
        own = self.by_version.get(version_id, EMPTY).at(at)
        model_id = self.model_of.get(version_id)
        return own if own is not None or model_id is None else self.by_model.get(model_id, EMPTY).at(at)

    def discount_bp(self, tenant_id: UUID | None, version_id: UUID, at: datetime) -> int:
        if tenant_id is None:
            return 0
        of_model = self.discounts.get((tenant_id, self.model_of.get(version_id)), NO_DISCOUNTS).at(at)
        general = self.discounts.get((tenant_id, None), NO_DISCOUNTS).at(at)
        return of_model if of_model is not None else general or 0

    def tariff(self, version_id: UUID, tenant_id: UUID | None, service_class: str, at: datetime) -> Tariff | None:
        """As this tenant pays; None when no line was in force."""
        listed = self.list_price(version_id, at)
        if listed is None:
            return None
        batch_bp = listed.batch_discount_bp if service_class == BATCH_CLASS else 0
        tenant_bp = self.discount_bp(tenant_id, version_id, at)
        price = discounted(listed.price, batch_bp, tenant_bp) if batch_bp or tenant_bp else listed.price
        return Tariff(price, listed.line_id)

    def changes(self) -> list[datetime]:
        """Every moment at which some answer may change."""
        timelines: tuple[Timeline[Any], ...] = (
            *self.by_version.values(),
            *self.by_model.values(),
            *self.discounts.values(),
        )
        return sorted({start for timeline in timelines for start in timeline.starts})


class Tariffs:
    """A book that is asked for many records. Between two changes of the book an answer holds, so each is found once.

    Ids are texts, as records carry them: a text is compared faster than a UUID.
    """

    _MOST_KNOWN = 50_000

    def __init__(self, book: Book) -> None:
        self._book = book
        self._changes = book.changes()
        self._known: dict[tuple[int, str, str, bool], Tariff | None] = {}

    def of(self, version_id: str, tenant_id: str, service_class: str, at: datetime) -> Tariff | None:
        key = (bisect_right(self._changes, at), version_id, tenant_id, service_class == BATCH_CLASS)
        try:
            return self._known[key]
        except KeyError:
            return self._remember(key, self._find(version_id, tenant_id, service_class, at))

    def _find(self, version_id: str, tenant_id: str, service_class: str, at: datetime) -> Tariff | None:
        if not version_id:
            return None
        return self._book.tariff(UUID(version_id), UUID(tenant_id) if tenant_id else None, service_class, at)

    def _remember(self, key: tuple[int, str, str, bool], tariff: Tariff | None) -> Tariff | None:
        if len(self._known) >= self._MOST_KNOWN:
            self._known.clear()
        self._known[key] = tariff
        return tariff


class Priced(Protocol):
    """What a cost depends on; `usage_source` "none" means that no engine worked on it."""

    @property
    def usage_source(self) -> str: ...
    @property
    def input_tokens(self) -> int: ...
    @property
    def cached_input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def wasted_tokens(self) -> int: ...


class Rating(NamedTuple):
    """`list_pico_usd` is before discounts. `is_mismatch`: the gateway counted something else.

    `line_id` and `charged_e8` say by which line of the price book, and which share of it was charged.
    """

    cost_pico_usd: int
    list_pico_usd: int
    wasted_pico_usd: int = 0
    is_unpriced: bool = False
    is_mismatch: bool = False
    line_id: UUID | None = None
    charged_e8: int = WHOLE_E8


def rate(used: Priced, tariff: Tariff | None, gateway_pico_usd: int) -> Rating:
    """By the book; without a line what the gateway counted, and if that is nothing, too, the record is unpriced."""
    is_served = used.usage_source != "none"
    if tariff is None:
        return Rating(gateway_pico_usd, gateway_pico_usd, is_unpriced=is_served and gateway_pico_usd == 0)
    price = tariff.price
    listed = listed_pico_usd(price, used.input_tokens, used.cached_input_tokens, used.output_tokens, is_served)
    cost = charged(listed, price)
    wasted = charged(used.wasted_tokens * price.output_pico_usd, price)
    return Rating(
        cost, listed, wasted, is_unpriced=False, is_mismatch=cost != gateway_pico_usd,
        line_id=tariff.line_id, charged_e8=price.charged_e8,
    )  # fmt: skip


def usd_from_pico(pico_usd: int) -> Decimal:
    return Decimal(pico_usd).scaleb(-12)


def pico_from_usd(usd: Decimal) -> int:
    return int(usd.scaleb(12))


def split_exactly(whole: int, weights: Sequence[int]) -> list[int]:
    """Parts that add up to `whole`, each within one of its share: what rounding cuts from one, the next gets."""
    total, given, weighed, parts = sum(weights), 0, 0, []
    for weight in weights:
        weighed += weight
        reached = whole * weighed // total if total else 0
        parts.append(reached - given)
        given = reached
    return parts

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet

from apps.common.actors import Actor
from apps.registry.models import Model, ModelVersion
from apps.tenants.selectors import list_tenants
from apps.usage.models import PriceEntry, TenantDiscount
from apps.usage.policies.pricing import Book, Dated, ListPrice, Tariffs, Timeline
from workers.contracts.pricing import EVERY_MODEL
from workers.contracts.snapshot import Price

K = TypeVar("K")
T = TypeVar("T")


def list_prices(*, version_id: UUID | None = None) -> QuerySet[PriceEntry]:
    entries = PriceEntry.objects.select_related("version__model", "model")
    return entries if version_id is None else entries.filter(version_id=version_id)


def get_line_at(*, version: ModelVersion | None, model: Model | None, at: datetime) -> PriceEntry | None:
    """The line by which a version, or those of a model without a line of their own, are charged at a time."""
    subject = Q(version=version) if version else Q(model=model)
    own = list_prices().filter(subject, effective_from__lte=at).first()
    if own is not None or version is None:
        return own
    return list_prices().filter(model=version.model, effective_from__lte=at).first()


def get_next_line_at(*, version: ModelVersion | None, model: Model | None, after: datetime) -> datetime | None:
    """From when another line of the same subject holds."""
    own = PriceEntry.objects.filter(version=version, model=model, effective_from__gt=after)
    return own.order_by("effective_from").values_list("effective_from", flat=True).first()


def list_discounts(*, actor: Actor) -> QuerySet[TenantDiscount]:
    return TenantDiscount.objects.filter(tenant__in=list_tenants(actor=actor)).select_related("tenant", "model")


def load_book(*, as_of: datetime | None = None) -> Book:
    """As it is, or as it was at a time: the lines that had been made by then. Lines without that date are older."""
    lines, discounts = PriceEntry.objects.order_by("id"), TenantDiscount.objects.order_by("id")
    if as_of is not None:
        lines, discounts = lines.filter(_made_by(as_of)), discounts.filter(_made_by(as_of))
    dated = [(line, Dated(line.effective_from, list_price_of(line))) for line in lines]
    return Book(
        by_version=_timelines((line.version_id, value) for line, value in dated if line.version_id),
        by_model=_timelines((line.model_id, value) for line, value in dated if line.model_id),
        model_of=dict(ModelVersion.objects.values_list("pk", "model_id")),
        discounts=_timelines(
            ((row.tenant_id, row.model_id), Dated(row.effective_from, row.discount_bp)) for row in discounts
        ),
    )


_FINGERPRINT = """
SELECT (SELECT count(*)::text || max(id::text) FROM usage_priceentry),
       (SELECT count(*)::text || max(id::text) FROM usage_tenantdiscount),
       (SELECT count(*)::text || max(id::text) FROM registry_modelversion)
"""


@dataclass(frozen=True)
class _Loaded:
    fingerprint: tuple[str, ...]
    tariffs: Tariffs


class _Kept:
    """The newest book that this process has read."""

    loaded: _Loaded | None = None


def get_tariffs() -> Tariffs:
    """The book as it is, read again only when a line has come or gone: lines are never changed.

    For work that sees every tenant, as what is kept is shared.
    """
    with connection.cursor() as cursor:
        cursor.execute(_FINGERPRINT)
        fingerprint = cursor.fetchone()
    kept = _Kept.loaded
    if kept is None or kept.fingerprint != fingerprint:
        kept = _Kept.loaded = _Loaded(fingerprint, Tariffs(load_book()))
    return kept.tariffs


def _made_by(moment: datetime) -> Q:
    return Q(created_at__isnull=True) | Q(created_at__lte=moment)


def _timelines(pairs: Iterable[tuple[K, Dated[T]]]) -> dict[K, Timeline[T]]:
    grouped: dict[K, list[Dated[T]]] = {}
    for key, dated in pairs:
        grouped.setdefault(key, []).append(dated)
    return {key: Timeline(dated) for key, dated in grouped.items()}


def list_price_of(entry: PriceEntry) -> ListPrice:
    price = Price(
        input_pico_usd=entry.input_pico_usd,
        cached_input_pico_usd=entry.cached_input_pico_usd,
        output_pico_usd=entry.output_pico_usd,
        request_pico_usd=entry.request_pico_usd,
    )
    return ListPrice(price, entry.batch_discount_bp, entry.pk)


def get_prices_in_force(*, version_ids: Iterable[UUID], now: datetime) -> dict[UUID, ListPrice | None]:
    """None where the book has no line for the version or its model."""
    book = load_book()
    return {version_id: book.list_price(version_id, now) for version_id in version_ids}


def get_discounts_in_force(*, now: datetime) -> dict[UUID, dict[str, int]]:
    """In basis points, by tenant and model name; "" stands for every model without its own."""
    names = dict(Model.objects.values_list("pk", "name"))
    found: dict[UUID, dict[str, int]] = {}
    for (tenant_id, model_id), timeline in load_book().discounts.items():
        discount_bp = timeline.at(now)
        if discount_bp is not None:
            found.setdefault(tenant_id, {})[names[model_id] if model_id else EVERY_MODEL] = discount_bp
    return {tenant_id: dict(sorted(found[tenant_id].items())) for tenant_id in found}

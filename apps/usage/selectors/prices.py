from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from apps.usage.models import PriceEntry
from apps.usage.policies import DatedPrice, as_uuid, price_at
from workers.contracts.snapshot import Price


def list_prices(*, version_id: UUID | None = None) -> QuerySet[PriceEntry]:
    entries = PriceEntry.objects.select_related("version__model")
    return entries if version_id is None else entries.filter(version_id=version_id)


def list_dated_prices(version_ids: Collection[str]) -> dict[str, list[DatedPrice]]:
    """Newest first, by version id."""
    prices: dict[str, list[DatedPrice]] = {}
    known = [parsed for text in version_ids if (parsed := as_uuid(text))]
    for entry in PriceEntry.objects.filter(version_id__in=known).order_by("-effective_from"):
        dated = DatedPrice(entry.effective_from, price_of(entry))
        prices.setdefault(str(entry.version_id), []).append(dated)
    return prices


def price_of(entry: PriceEntry) -> Price:
    return Price(
        input_pico_usd=entry.input_pico_usd,
        cached_input_pico_usd=entry.cached_input_pico_usd,
        output_pico_usd=entry.output_pico_usd,
    )


def get_prices_in_force(*, version_ids: Collection[str], now: datetime) -> dict[str, Price]:
    dated = list_dated_prices(version_ids)
    return {version_id: price_at(dated.get(version_id, []), now) for version_id in version_ids}

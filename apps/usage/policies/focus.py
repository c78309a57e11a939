"""Charges in the columns of FOCUS 1.2, the FinOps Open Cost and Usage Specification. Pure.

A row is what one tenant's key used of one model version in one UTC day (or the part of it that was asked for), at one
price, by one meter: fresh input, cached input, output, and requests where a request as such has a price. Its unit
prices are those of the price book's line, and times the quantity they are exactly the costs they belong to.
`BilledCost` and `EffectiveCost` are what was charged, each request rounded to 1e-12 USD; `ContractedCost` is before the
rounding. What was charged without a line is one row of one unit. What has no meaning here (regions, commitments,
reservations, other currencies) is null.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import localcontext
from typing import Any, NamedTuple

import msgspec

from apps.usage.policies.focus_columns import COLUMNS, NAMES
from apps.usage.policies.forecast import first_of_next
from apps.usage.policies.pricing import split_exactly, usd_from_pico
from apps.usage.policies.tables import Column
from workers.contracts.snapshot import Price

PROVIDER = "Tokenyard"
_DIGITS = 60  # so that products are exact


@dataclass(frozen=True, kw_only=True)
class Charge:
    """`input_tokens` without the cached ones. `sku` is whose line of the price book `price` is; None without a line."""

    start: datetime
    end: datetime
    tenant_id: str
    tenant: str
    version_id: str
    version: str
    model: str
    key: str
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    sku: str | None
    price: Price | None
    charged_e8: int
    list_pico_usd: int
    cost_pico_usd: int


class _Meter(NamedTuple):
    """`tokens` where the quantity that is priced is not the one that was used."""

    name: str
    unit: str
    quantity: int
    unit_pico_usd: int
    tokens: int | None = None

    @property
    def list_pico_usd(self) -> int:
        return self.quantity * self.unit_pico_usd


def columns() -> list[Column]:
    return list(COLUMNS)


def rows_of(charge: Charge) -> Iterator[Sequence[Any]]:
    """Nothing where nothing was used."""
    meters = [meter for meter in _meters_of(charge) if meter.quantity]
    billed = split_exactly(charge.cost_pico_usd, [meter.list_pico_usd for meter in meters])
    common = _common_to(charge)
    for meter, pico_usd in zip(meters, billed, strict=True):
        known = common | _of_meter(charge, meter, pico_usd)
        yield [known.get(name) for name in NAMES]


def _meters_of(charge: Charge) -> list[_Meter]:
    price = charge.price
    if price is None:
        return _without_a_line(charge)
    tokens = [
        _Meter("Input tokens", "Tokens", charge.input_tokens, price.input_pico_usd),
        _Meter("Cached input tokens", "Tokens", charge.cached_input_tokens, price.cached_input_pico_usd),
        _Meter("Output tokens", "Tokens", charge.output_tokens, price.output_pico_usd),
    ]
    if not price.request_pico_usd:
        return tokens
    for_requests = charge.list_pico_usd - sum(meter.list_pico_usd for meter in tokens)
    served = for_requests // price.request_pico_usd
    return [*tokens, _Meter("Requests", "Requests", served, price.request_pico_usd)]


def _without_a_line(charge: Charge) -> list[_Meter]:
    """What a gateway charged when the book had no line, in one; what nobody has priced yet, at nothing."""
    tokens = charge.input_tokens + charge.cached_input_tokens + charge.output_tokens
    if charge.list_pico_usd:
        return [_Meter("Usage", "Units", 1, charge.list_pico_usd, tokens)]
    return [_Meter("Tokens", "Tokens", tokens, 0)]


def _of_meter(charge: Charge, meter: _Meter, billed_pico_usd: int) -> dict[str, Any]:
    list_unit = usd_from_pico(meter.unit_pico_usd)
    with localcontext(prec=_DIGITS):
        contracted_unit = (list_unit * charge.charged_e8).scaleb(-8)  # the share is in units of 1e-8
        contracted = contracted_unit * meter.quantity
    billed = usd_from_pico(billed_pico_usd)
    sku = f"{charge.sku or charge.model or 'none'}/{meter.name.lower().replace(' ', '-')}"
    return {
        "BilledCost": billed,
        "EffectiveCost": billed,
        "PricingCurrencyEffectiveCost": billed,
        "ContractedCost": contracted,
        "ContractedUnitPrice": contracted_unit,
        "PricingCurrencyContractedUnitPrice": contracted_unit,
        "ListCost": usd_from_pico(meter.list_pico_usd),
        "ListUnitPrice": list_unit,
        "PricingCurrencyListUnitPrice": list_unit,
        "ChargeDescription": f"{meter.name} of {charge.version or charge.model or 'no model'}",
        "ConsumedQuantity": meter.quantity if meter.tokens is None else meter.tokens,
        "ConsumedUnit": meter.unit if meter.tokens is None else "Tokens",
        "PricingQuantity": meter.quantity,
        "PricingUnit": meter.unit,
        "SkuId": sku,
        "SkuMeter": meter.name,
        "SkuPriceId": sku,
    }


def _common_to(charge: Charge) -> dict[str, Any]:
    month = charge.start.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    next_month = datetime.combine(first_of_next(month.date()), month.timetz())
    return {
        "BillingCurrency": "USD",
        "BillingAccountId": PROVIDER.lower(),
        "BillingAccountName": PROVIDER,
        "BillingAccountType": "Installation",
        "BillingPeriodStart": _instant(month),
        "BillingPeriodEnd": _instant(next_month),
        "ChargePeriodStart": _instant(charge.start),
        "ChargePeriodEnd": _instant(charge.end),
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "PricingCategory": "Standard",
        "PricingCurrency": "USD",
        "InvoiceIssuerName": PROVIDER,
        "ProviderName": PROVIDER,
        "PublisherName": PROVIDER,
        "ServiceCategory": "AI and Machine Learning",
        "ServiceSubcategory": "Generative AI",
        "ServiceName": "Inference",
        "ResourceId": charge.version_id or None,
        "ResourceName": charge.version or None,
        "ResourceType": "Model version" if charge.version_id else None,
        "SubAccountId": charge.tenant_id or None,
        "SubAccountName": charge.tenant or None,
        "SubAccountType": "Tenant" if charge.tenant_id else None,
        "Tags": msgspec.json.encode({f"{PROVIDER.lower()}/api_key": charge.key} if charge.key else {}).decode(),
    }


def _instant(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

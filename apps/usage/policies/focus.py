"""Charges in the columns of FOCUS 1.2, the FinOps Open Cost and Usage Specification. Pure.

A row is what one tenant's key used of one model version in one UTC day. What has no meaning here (regions, commitments,
reservations, other currencies) is null. Unit prices are null, too: a day may mix prices, and the costs are exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from apps.usage.policies.forecast import first_of_next
from apps.usage.policies.tables import Column, Kind

PROVIDER = "Tokenyard"
_COLUMNS = (
    "AvailabilityZone", "BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType", "BillingCurrency",
    "BillingPeriodEnd", "BillingPeriodStart", "CapacityReservationId", "CapacityReservationStatus", "ChargeCategory",
    "ChargeClass", "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart",
    "CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountName", "CommitmentDiscountQuantity",
    "CommitmentDiscountStatus", "CommitmentDiscountType", "CommitmentDiscountUnit", "ConsumedQuantity", "ConsumedUnit",
    "ContractedCost", "ContractedUnitPrice", "EffectiveCost", "InvoiceId", "InvoiceIssuerName", "ListCost",
    "ListUnitPrice", "PricingCategory", "PricingCurrency", "PricingCurrencyContractedUnitPrice",
    "PricingCurrencyEffectiveCost", "PricingCurrencyListUnitPrice", "PricingQuantity", "PricingUnit", "ProviderName",
    "PublisherName", "RegionId", "RegionName", "ResourceId", "ResourceName", "ResourceType", "ServiceCategory",
    "ServiceName", "ServiceSubcategory", "SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId", "SubAccountId",
    "SubAccountName", "SubAccountType", "Tags",
)  # fmt: skip
_COSTS = {"BilledCost", "ContractedCost", "EffectiveCost", "ListCost"}
_QUANTITIES = {"ConsumedQuantity", "PricingQuantity"}


@dataclass(frozen=True, kw_only=True)
class Charge:
    day: date
    tenant_id: str
    tenant: str
    version_id: str
    version: str
    model: str
    key: str
    request_count: int
    tokens: int
    list_usd: Decimal
    cost_usd: Decimal


def columns() -> list[Column]:
    return [Column(name, _kind(name)) for name in _COLUMNS]


def _kind(name: str) -> Kind:
    return "money" if name in _COSTS else "integer" if name in _QUANTITIES else "text"


def row_of(charge: Charge) -> Sequence[Any]:
    month = charge.day.replace(day=1)
    known: dict[str, Any] = {
        "BilledCost": charge.cost_usd,
        "EffectiveCost": charge.cost_usd,
        "ContractedCost": charge.cost_usd,
        "ListCost": charge.list_usd,
        "BillingCurrency": "USD",
        "BillingAccountId": PROVIDER.lower(),
        "BillingAccountName": PROVIDER,
        "BillingPeriodStart": _instant(month),
        "BillingPeriodEnd": _instant(first_of_next(month)),
        "ChargePeriodStart": _instant(charge.day),
        "ChargePeriodEnd": _instant(charge.day + timedelta(days=1)),
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "ChargeDescription": f"{charge.request_count} requests to {charge.model or 'no model'}",
        "ConsumedQuantity": charge.tokens,
        "ConsumedUnit": "Tokens",
        "PricingQuantity": charge.tokens,
        "PricingUnit": "Tokens",
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
        "SkuId": charge.model or None,
        "SkuMeter": "Tokens",
        "SubAccountId": charge.tenant_id or None,
        "SubAccountName": charge.tenant or None,
        "SubAccountType": "Tenant" if charge.tenant_id else None,
        "Tags": msgspec.json.encode({"api_key": charge.key} if charge.key else {}).decode(),
    }
    return [known.get(name) for name in _COLUMNS]


def _instant(day: date) -> str:
    return datetime.combine(day, time.min, tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

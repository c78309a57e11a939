"""FOCUS 1.2 as a check of our own: what the specification says of each column of a row, in the words of its rules.

From https://focus.finops.org/focus-specification/v1-2/. Every charge here is usage and no correction, so the rules for
taxes, credits, purchases and corrections are left out.
"""

import json
import re
from decimal import Decimal

NOT_NULL = {
    "BilledCost", "BillingAccountId", "BillingAccountType", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart",
    "ChargeCategory", "ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit", "ContractedCost",
    "ContractedUnitPrice", "EffectiveCost", "InvoiceIssuerName", "ListCost", "ListUnitPrice", "PricingCategory",
    "PricingCurrency", "PricingCurrencyContractedUnitPrice", "PricingCurrencyEffectiveCost",
    "PricingCurrencyListUnitPrice", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName",
    "ServiceCategory", "ServiceName", "ServiceSubcategory", "SkuId", "SkuMeter", "SkuPriceId",
}  # fmt: skip
NULL = {  # of what there is none here: commitments, reservations, corrections, regions
    "AvailabilityZone", "CapacityReservationId", "CapacityReservationStatus", "ChargeClass",
    "CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountName", "CommitmentDiscountQuantity",
    "CommitmentDiscountStatus", "CommitmentDiscountType", "CommitmentDiscountUnit", "RegionId", "RegionName",
}  # fmt: skip
ALLOWED = {
    "ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "PricingCategory": {"Standard", "Dynamic", "Committed", "Other"},
    "ServiceCategory": {"AI and Machine Learning"},
    "ServiceSubcategory": {
        "AI Platforms", "Bots", "Generative AI", "Machine Learning", "Natural Language Processing",
        "Other (AI and Machine Learning)",
    },
}  # fmt: skip
NUMBERS = {
    "BilledCost", "EffectiveCost", "ContractedCost", "ListCost", "ListUnitPrice", "ContractedUnitPrice",
    "PricingQuantity", "ConsumedQuantity", "PricingCurrencyEffectiveCost", "PricingCurrencyListUnitPrice",
    "PricingCurrencyContractedUnitPrice",
}  # fmt: skip
MOMENTS = {"BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd"}
CURRENCIES = {"BillingCurrency", "PricingCurrency"}
UNITS = {"ConsumedUnit", "PricingUnit"}
KEY_VALUES = {"Tags", "SkuPriceDetails"}
NAMED_BY = {"ResourceId": ("ResourceType",), "SubAccountId": ("SubAccountType",), "SkuId": ("SkuMeter",)}
PRODUCTS = {
    "ListCost": ("ListUnitPrice", "PricingQuantity"),
    "ContractedCost": ("ContractedUnitPrice", "PricingQuantity"),
}
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_UNIT = re.compile(r"(\d+ )?[A-Z][A-Za-z]*s?(-[A-Z][A-Za-z]*s?)?")


def broken_rules(row: dict[str, str]) -> list[str]:
    """Of one line of the CSV; an empty text is null."""
    return [*_nulls(row), *_formats(row), *_relations(row)]


def _nulls(row):
    yield from (f"{name} is null" for name in NOT_NULL if not row[name])
    yield from (f"{name} is not null" for name in NULL if row[name])


def _formats(row):
    yield from (f"{name} is {row[name]}" for name, values in ALLOWED.items() if row[name] not in values)
    yield from (f"{name} is no number: {row[name]}" for name in NUMBERS if not _NUMBER.fullmatch(row[name]))
    yield from (f"{name} is no moment: {row[name]}" for name in MOMENTS if not _MOMENT.fullmatch(row[name]))
    yield from (f"{name} is no currency" for name in CURRENCIES if not re.fullmatch("[A-Z]{3}", row[name]))
    yield from (f"{name} is no unit: {row[name]}" for name in UNITS if not _UNIT.fullmatch(row[name]))
    yield from (f"{name} is no flat object" for name in KEY_VALUES if row[name] and not _is_flat(row[name]))


def _is_flat(text):
    found = json.loads(text)
    return isinstance(found, dict) and not any(isinstance(value, dict | list) for value in found.values())


def _relations(row):
    for name, described in NAMED_BY.items():
        yield from (f"{name} without {other}" for other in described if bool(row[name]) != bool(row[other]))
    for cost, (price, quantity) in PRODUCTS.items():
        if Decimal(row[price]) * Decimal(row[quantity]) != Decimal(row[cost]):
            yield f"{price} times {quantity} is not {cost}"
    yield from (f"{name} is negative" for name in NUMBERS if row[name].startswith("-"))
    if not row["ChargePeriodStart"] < row["ChargePeriodEnd"]:
        yield "the charge's period ends before it begins"
    if not row["BillingPeriodStart"] <= row["ChargePeriodStart"] <= row["ChargePeriodEnd"] <= row["BillingPeriodEnd"]:
        yield "the charge's period is outside of the billing period"

"""The columns of FOCUS 1.2, in alphabetical order, with the types of their files."""

from apps.usage.policies.tables import Column, Kind

NAMES = (
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
_MONEY = {"BilledCost", "EffectiveCost", "ListCost", "PricingCurrencyEffectiveCost"}
_EXACT = {
    "ContractedCost",
    "ContractedUnitPrice",
    "ListUnitPrice",
    "PricingCurrencyContractedUnitPrice",
    "PricingCurrencyListUnitPrice",
}
_QUANTITIES = {"ConsumedQuantity", "PricingQuantity"}


def _kind(name: str) -> Kind:
    if name in _EXACT:
        return "unit_price"
    return "money" if name in _MONEY else "integer" if name in _QUANTITIES else "text"


COLUMNS = tuple(Column(name, _kind(name)) for name in NAMES)

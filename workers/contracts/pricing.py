"""What a request costs: one formula for the gateway, which has to know at once, and for the control plane's price book.

    cost = round((fresh input * its price + cached input * its price + output * its price + price per request) * share)

The share is what remains after the discounts. Rounding is once per request, to the nearest picodollar, a half upwards;
every sum above a request is exact.
"""

from workers.contracts.snapshot import Price, TenantPolicy, Version

WHOLE_E8 = 10**8
BASIS_POINTS = 10_000
BATCH_CLASS = "batch"
EVERY_MODEL = ""


def share_e8(*discounts_bp: int) -> int:
    """What two discounts in basis points leave, in units of 1e-8: exact, since each leaves a multiple of 1e-4."""
    share = WHOLE_E8
    for discount_bp in discounts_bp:
        share = share * (BASIS_POINTS - discount_bp) // BASIS_POINTS
    return share


def cost_pico_usd(
    price: Price, *, input_tokens: int, cached_input_tokens: int, output_tokens: int, is_served: bool = True
) -> int:
    """`input_tokens` includes the cached ones; `is_served`: an engine worked on it, so the price per request is due."""
    return charged(listed_pico_usd(price, input_tokens, cached_input_tokens, output_tokens, is_served), price)


def listed_pico_usd(
    price: Price,
    input_tokens: int,
    cached_input_tokens: int,
    output_tokens: int,
    is_served: bool,
) -> int:
    """Before discounts."""
    return (
        (input_tokens - cached_input_tokens) * price.input_pico_usd
        + cached_input_tokens * price.cached_input_pico_usd
        + output_tokens * price.output_pico_usd
        + (price.request_pico_usd if is_served else 0)
    )


def charged(listed_pico_usd: int, price: Price) -> int:
    """What of a listed amount is charged."""
    if price.charged_e8 == WHOLE_E8:
        return listed_pico_usd
    return (listed_pico_usd * price.charged_e8 + WHOLE_E8 // 2) // WHOLE_E8


def price_for(version: Version, tenant: TenantPolicy) -> Price:
    """The version's price as this tenant pays it."""
    discounts_bp = tenant.discounts_bp
    tenant_bp = discounts_bp.get(version.model, discounts_bp.get(EVERY_MODEL, 0)) if discounts_bp else 0
    batch_bp = version.batch_discount_bp if tenant.service_class == BATCH_CLASS else 0
    return discounted(version.price, batch_bp, tenant_bp) if tenant_bp or batch_bp else version.price


def discounted(price: Price, *discounts_bp: int) -> Price:
    return Price(
        input_pico_usd=price.input_pico_usd,
        cached_input_pico_usd=price.cached_input_pico_usd,
        output_pico_usd=price.output_pico_usd,
        request_pico_usd=price.request_pico_usd,
        charged_e8=share_e8(*discounts_bp),
    )

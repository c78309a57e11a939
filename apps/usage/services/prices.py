"""New lines of the price book. Lines are never changed: what was charged stays, until a re-rating says otherwise."""

from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.errors import ConflictError, InvalidInputError
from apps.common.saving import save_checked
from apps.common.tasks_by_name import enqueue_on_commit
from apps.registry.models import Model, ModelVersion
from apps.tenants.models import Tenant
from apps.usage.models import PriceEntry, TenantDiscount
from workers.contracts.snapshot import Price

PRICE_FIELDS = ("input_pico_usd", "cached_input_pico_usd", "output_pico_usd", "request_pico_usd")
MOST_PICO_USD = 10**12  # a dollar a token: with the most tokens that a record may have, its cost fits its column
MOST_A_REQUEST_PICO_USD = 10**15


@transaction.atomic
def set_price(
    *,
    actor: Actor,
    price: Price,
    effective_from: datetime,
    now: datetime,
    version: ModelVersion | None = None,
    model: Model | None = None,
    batch_discount_bp: int = 0,
) -> PriceEntry:
    """For a version or for a whole model. From the past on it counts for records that are still to come."""
    if (version is None) == (model is None):
        raise InvalidInputError("a price is for a version or for a model", fields={"version_id": "or model_id, one"})
    amounts = {name: getattr(price, name) for name in PRICE_FIELDS}
    _refuse_absurd(amounts)
    facts = amounts | {"batch_discount_bp": batch_discount_bp}
    _refuse_repeated(PriceEntry.objects.filter(version=version, model=model, effective_from=effective_from), facts)
    entry = PriceEntry(
        version=version,
        model=model,
        effective_from=effective_from,
        batch_discount_bp=batch_discount_bp,
        created_at=now,
        **amounts,
    )
    save_checked(entry)
    after = {"effective_from": effective_from.isoformat(), "batch_discount_bp": batch_discount_bp, **amounts}
    _announce(actor=actor, action="price.set", entry=entry, now=now, after=after)
    return entry


def _refuse_repeated(same_moment: QuerySet[Any], facts: dict[str, int]) -> None:
    """Of lines from one moment the one made last holds, so another is a correction; the same again is a slip."""
    newest = same_moment.order_by("-id").values(*facts).first()
    if newest == facts:
        raise ConflictError("the book says so already, from the same time on")


def _refuse_absurd(amounts: dict[str, int]) -> None:
    for name, pico_usd in amounts.items():
        most = MOST_A_REQUEST_PICO_USD if name == "request_pico_usd" else MOST_PICO_USD
        if pico_usd > most:
            raise InvalidInputError("no price can be so high", fields={name: f"is more than {most} picodollars"})


@transaction.atomic
def set_discount(
    *, actor: Actor, tenant: Tenant, model: Model | None, discount_bp: int, effective_from: datetime, now: datetime
) -> TenantDiscount:
    """0 ends a discount."""
    same_moment = TenantDiscount.objects.filter(tenant=tenant, model=model, effective_from=effective_from)
    _refuse_repeated(same_moment, {"discount_bp": discount_bp})
    entry = TenantDiscount(
        tenant=tenant, model=model, discount_bp=discount_bp, effective_from=effective_from, created_at=now
    )
    save_checked(entry)
    after = {"model": str(model or ""), "discount_bp": discount_bp, "effective_from": effective_from.isoformat()}
    _announce(actor=actor, action="discount.set", entry=entry, now=now, after=after, tenant_id=tenant.pk)
    return entry


def _announce(*, actor: Actor, action: str, entry: PriceEntry | TenantDiscount, now: datetime, **facts: Any) -> None:
    record_change(actor=actor, action=action, subject=entry, now=now, **facts)
    enqueue_on_commit("routing.publish")
    enqueue_on_commit("usage.price_unpriced")

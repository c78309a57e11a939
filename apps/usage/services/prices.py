from datetime import datetime

from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.saving import save_checked
from apps.common.tasks_by_name import enqueue_on_commit
from apps.registry.models import ModelVersion
from apps.usage.models import PriceEntry
from workers.contracts.snapshot import Price


@transaction.atomic
def set_price(
    *, actor: Actor, version: ModelVersion, price: Price, effective_from: datetime, now: datetime
) -> PriceEntry:
    """A new line of the price book; what was charged before stays as it was."""
    entry = PriceEntry(
        version=version,
        effective_from=effective_from,
        input_pico_usd=price.input_pico_usd,
        cached_input_pico_usd=price.cached_input_pico_usd,
        output_pico_usd=price.output_pico_usd,
    )
    save_checked(entry)
    after = {
        "effective_from": effective_from.isoformat(),
        "input_pico_usd": price.input_pico_usd,
        "cached_input_pico_usd": price.cached_input_pico_usd,
        "output_pico_usd": price.output_pico_usd,
    }
    record_change(actor=actor, action="price.set", subject=entry, now=now, after=after)
    enqueue_on_commit("routing.publish")
    return entry

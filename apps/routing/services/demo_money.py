"""The demo's accelerator prices and its one budget."""

from datetime import datetime, timedelta
from decimal import Decimal

from apps.common.actors import SYSTEM
from apps.tenants.models import Tenant
from apps.usage.models import AcceleratorPrice, Budget
from apps.usage.services.accelerators import set_accelerator_price
from apps.usage.services.budgets import create_budget

_CATALOGUE = "indicative public price: gpu_catalog.json of llm-d-planner 0.3.3"
# Matched as parts of what NVML calls them; US dollars an hour.
ACCELERATORS = (
    ("L4", "0.80", _CATALOGUE),
    ("A10", "1.30", _CATALOGUE),
    ("L40S", "1.80", "indicative public price: catalog.py of vllm-sr-sim 0.1"),
    ("A100", "3.50", _CATALOGUE),
    ("A100-SXM4-40GB", "3.00", _CATALOGUE),
    ("H100", "4.50", _CATALOGUE),
    ("H200", "5.75", _CATALOGUE),
    ("B200", "7.25", _CATALOGUE),
    ("MI300X", "3.75", _CATALOGUE),
    ("", "0.10", "made up for the demo, for a machine without a GPU"),
)
BUDGET_USD = Decimal(25)


def seed_money(*, tenant: Tenant, now: datetime) -> None:
    """Only where nobody has set any yet."""
    if not AcceleratorPrice.objects.exists():
        for name, hour_usd, source in ACCELERATORS:
            set_accelerator_price(
                actor=SYSTEM,
                accelerator_name=name,
                ownership="owned",
                hour_pico_usd=int(Decimal(hour_usd).scaleb(12)),
                effective_from=now - timedelta(hours=1),
                now=now,
                source=source,
            )
    if not Budget.objects.exists():
        create_budget(actor=SYSTEM, name="demo", tenant=tenant, amount_usd=BUDGET_USD, now=now)

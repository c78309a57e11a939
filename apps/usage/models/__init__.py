from apps.usage.models.accelerators import (
    AcceleratorClock,
    AcceleratorPrice,
    AcceleratorSlot,
    EngineShare,
    Ownership,
    SharedSlot,
)
from apps.usage.models.budgets import Budget, BudgetAlert, Channel
from apps.usage.models.outcomes import TaskOutcome, TaskUsage
from apps.usage.models.prices import PriceEntry, Rerating, ReratingState, TenantDiscount
from apps.usage.models.records import QuarantinedRecord, UsageRecord, UsageSource
from apps.usage.models.rollups import (
    UsageByEndUser,
    UsageByModel,
    UsageByWorkflow,
    UsageDay,
    UsageEndUserDay,
    UsageSlot,
    UsageTotal,
    UsageWorkflowTotal,
)

__all__ = [
    "AcceleratorClock",
    "AcceleratorPrice",
    "AcceleratorSlot",
    "Budget",
    "BudgetAlert",
    "Channel",
    "EngineShare",
    "Ownership",
    "PriceEntry",
    "QuarantinedRecord",
    "Rerating",
    "ReratingState",
    "SharedSlot",
    "TaskOutcome",
    "TaskUsage",
    "TenantDiscount",
    "UsageByEndUser",
    "UsageByModel",
    "UsageByWorkflow",
    "UsageDay",
    "UsageEndUserDay",
    "UsageRecord",
    "UsageSlot",
    "UsageSource",
    "UsageTotal",
    "UsageWorkflowTotal",
]

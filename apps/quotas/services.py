from datetime import datetime

from django.db import transaction

from apps.audit.services import record_change
from apps.common.actors import Actor
from apps.common.saving import save_checked
from apps.common.tasks_by_name import enqueue_on_commit
from apps.quotas.models import ServiceClass, SLOProfile, TenantPolicy
from apps.quotas.selectors import get_policy
from apps.tenants.models import Tenant
from apps.tenants.services import PUBLISH, create_tenant


@transaction.atomic
def create_service_class(*, actor: Actor, name: str, rank: int, now: datetime) -> ServiceClass:
    service_class = ServiceClass(name=name, rank=rank)
    save_checked(service_class)
    record_change(actor=actor, action="service_class.created", subject=service_class, now=now, after={"rank": rank})
    enqueue_on_commit(PUBLISH)
    return service_class


@transaction.atomic
def create_slo_profile(*, actor: Actor, name: str, ttft_ms: int, tpot_ms: int, now: datetime) -> SLOProfile:
    profile = SLOProfile(name=name, ttft_ms=ttft_ms, tpot_ms=tpot_ms)
    save_checked(profile)
    after = {"ttft_ms": ttft_ms, "tpot_ms": tpot_ms}
    record_change(actor=actor, action="slo_profile.created", subject=profile, now=now, after=after)
    enqueue_on_commit(PUBLISH)
    return profile


@transaction.atomic
def open_tenant(
    *,
    actor: Actor,
    name: str,
    service_class: ServiceClass,
    slo_profile: SLOProfile,
    now: datetime,
    weight: float = 1.0,
    max_queued_requests: int = 1000,
) -> Tenant:
    """A tenant together with its policy, without which gateways would not know it."""
    tenant = create_tenant(actor=actor, name=name, now=now)
    set_tenant_policy(
        actor=actor,
        tenant=tenant,
        service_class=service_class,
        slo_profile=slo_profile,
        weight=weight,
        max_queued_requests=max_queued_requests,
        now=now,
    )
    return tenant


@transaction.atomic
def open_tenant_below(*, actor: Actor, parent: Tenant, name: str, now: datetime) -> Tenant:
    """A team or project with the policy of its parent."""
    tenant = create_tenant(actor=actor, name=name, parent=parent, now=now)
    policy = get_policy(parent.pk)
    set_tenant_policy(
        actor=actor,
        tenant=tenant,
        service_class=policy.service_class,
        slo_profile=policy.slo_profile,
        weight=policy.weight,
        max_queued_requests=policy.max_queued_requests,
        now=now,
    )
    return tenant


@transaction.atomic
def set_tenant_policy(
    *,
    actor: Actor,
    tenant: Tenant,
    service_class: ServiceClass,
    slo_profile: SLOProfile,
    weight: float,
    max_queued_requests: int,
    now: datetime,
) -> TenantPolicy:
    policy = TenantPolicy.objects.select_for_update().filter(tenant=tenant).first()
    before = _state_of(policy) if policy else {}
    policy = policy or TenantPolicy(tenant=tenant)
    policy.service_class, policy.slo_profile = service_class, slo_profile
    policy.weight, policy.max_queued_requests = weight, max_queued_requests
    save_checked(policy)
    record_change(
        actor=actor,
        action="policy.set",
        subject=policy,
        now=now,
        tenant_id=tenant.pk,
        before=before,
        after=_state_of(policy),
    )
    enqueue_on_commit(PUBLISH)
    return policy


def _state_of(policy: TenantPolicy) -> dict[str, str | float]:
    return {
        "service_class": policy.service_class.name,
        "slo_profile": policy.slo_profile.name,
        "weight": policy.weight,
        "max_queued_requests": policy.max_queued_requests,
    }

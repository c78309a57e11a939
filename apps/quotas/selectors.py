from uuid import UUID

from django.db.models import QuerySet

from apps.common.errors import NotFoundError
from apps.quotas.models import ServiceClass, SLOProfile, TenantPolicy


def list_service_classes() -> QuerySet[ServiceClass]:
    return ServiceClass.objects.all()


def get_service_class(name: str) -> ServiceClass:
    service_class = ServiceClass.objects.filter(name=name).first()
    if service_class is None:
        raise NotFoundError(f"no service class {name!r}", fields={"service_class": "does not exist"})
    return service_class


def list_slo_profiles() -> QuerySet[SLOProfile]:
    return SLOProfile.objects.all()


def get_slo_profile(name: str) -> SLOProfile:
    profile = SLOProfile.objects.filter(name=name).first()
    if profile is None:
        raise NotFoundError(f"no SLO profile {name!r}", fields={"slo_profile": "does not exist"})
    return profile


def list_policies() -> QuerySet[TenantPolicy]:
    return TenantPolicy.objects.select_related("tenant__parent__parent", "service_class", "slo_profile")


def find_policy(tenant_id: UUID) -> TenantPolicy | None:
    return list_policies().filter(pk=tenant_id).first()


def get_policy(tenant_id: UUID) -> TenantPolicy:
    policy = find_policy(tenant_id)
    if policy is None:
        raise NotFoundError("this tenant has no policy")
    return policy

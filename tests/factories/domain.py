"""Rows of the domain, made by its own services."""

from dataclasses import dataclass
from datetime import UTC, datetime

from apps.common.actors import SYSTEM
from apps.deployments.models import Replica
from apps.deployments.services.deployments import create_deployment
from apps.fleet.models import NodeState
from apps.fleet.services.nodes import join_node
from apps.quotas.models import ServiceClass, SLOProfile
from apps.quotas.services import create_service_class, create_slo_profile, open_tenant
from apps.registry.models import Model, ModelVersion
from apps.registry.services import create_model, create_version
from apps.tenants.models import Role, Tenant, User
from apps.tenants.services import add_member, create_user

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
PASSWORD = "correct horse battery"


def make_tenant(name="gold"):
    service_class = ServiceClass.objects.filter(name="first").first()
    service_class = service_class or create_service_class(actor=SYSTEM, name="first", rank=0, now=NOW)
    profile = SLOProfile.objects.filter(name="quick").first()
    profile = profile or create_slo_profile(actor=SYSTEM, name="quick", ttft_ms=500, tpot_ms=50, now=NOW)
    return open_tenant(actor=SYSTEM, name=name, service_class=service_class, slo_profile=profile, now=NOW)


def make_user(username, **flags):
    return create_user(actor=SYSTEM, username=username, password=PASSWORD, now=NOW, **flags)


def make_member(tenant, username, role=Role.DEVELOPER):
    user = make_user(username)
    add_member(actor=SYSTEM, tenant=tenant, user=user, role=role, now=NOW)
    return user


@dataclass(frozen=True)
class People:
    """Three actors around one tenant, and the platform's own. `teammate` is a plain developer."""

    tenant: Tenant
    other: Tenant
    owner: User
    teammate: User
    viewer: User
    stranger: User
    operator: User
    finance: User
    platform_admin: User
    roleless: User


def make_people():
    gold, batch = make_tenant("gold"), make_tenant("batch")
    return People(
        tenant=gold,
        other=batch,
        owner=make_member(gold, "owner", Role.TENANT_ADMIN),
        teammate=make_member(gold, "teammate", Role.DEVELOPER),
        viewer=make_member(gold, "viewer", Role.VIEWER),
        stranger=make_member(batch, "stranger", Role.TENANT_ADMIN),
        operator=make_user("root", is_operator=True),
        finance=make_user("money", is_finance=True),
        platform_admin=make_user("chief", is_platform_admin=True),
        roleless=make_user("roleless"),
    )


def make_version(label="v1", model="demo-chat", **facts):
    row = Model.objects.filter(name=model).first()
    row = row or create_model(actor=SYSTEM, name=model, task="generate", now=NOW)
    engine = {"engine": "fake", "source": "fake", "served_name": model} | facts
    return create_version(actor=SYSTEM, model=row, label=label, now=NOW, **engine)


def make_node(name="n1", **facts):
    """Online, and able to run everything."""
    node, _ = join_node(actor=SYSTEM, name=name, now=NOW)
    for field, value in ({"state": NodeState.ONLINE, "last_seen_at": NOW} | facts).items():
        setattr(node, field, value)
    node.save()
    return node


def make_deployment(version: ModelVersion, **facts):
    return create_deployment(
        actor=SYSTEM, name=f"{version.model.name}-{version.label}", version=version, now=NOW, **facts
    )


def make_replica(deployment, **facts):
    """Of its newest revision."""
    times = {"created_at": NOW, "state_changed_at": NOW}
    return Replica.objects.create(deployment=deployment, revision=deployment.revisions.first(), **(times | facts))

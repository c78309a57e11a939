"""Seeding the demo: each step makes what is missing and leaves the rest as people have changed it.

Secrets are kept in the file of the last run only. One that is not there, or no longer fits, is issued anew.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime

import msgspec
from django.conf import settings
from django.db import transaction

from apps.common.actors import SYSTEM
from apps.common.credentials import sha256_of
from apps.deployments.models import Deployment
from apps.deployments.services.deployments import create_deployment
from apps.fleet.models import Node
from apps.fleet.services.nodes import join_node, reissue_agent_token
from apps.quotas.models import ServiceClass, SLOProfile
from apps.quotas.services import create_service_class, create_slo_profile, open_tenant
from apps.registry.models import Model, ModelVersion
from apps.registry.services import change_engine, create_model, create_version
from apps.routing.models import Route
from apps.routing.services import demo_catalogue as demo
from apps.routing.services.demo_money import seed_money
from apps.routing.services.routes import create_route
from apps.routing.services.snapshots import snapshot_key
from apps.tenants.models import APIKey, Membership, Role, Tenant, User
from apps.tenants.services import add_member, change_password, create_key, create_user, revoke_key
from apps.usage.models import PriceEntry
from apps.usage.services.partitions import make_partitions
from apps.usage.services.prices import set_price
from workers.contracts.signing import public_key_text

PASSWORD_BYTES = 12
KEY_NAME = "demo"


class DemoLogin(msgspec.Struct, kw_only=True):
    username: str
    password: str
    role: str
    tenant: str = ""


class DemoKey(msgspec.Struct, kw_only=True):
    api_key: str


class DemoFile(msgspec.Struct, kw_only=True):
    """What people and programs are told; the only place where the demo's secrets are in the clear."""

    logins: list[DemoLogin] = []
    tenants: dict[str, DemoKey] = {}
    model: str = demo.CHAT_MODEL
    embedding_model: str = demo.EMBEDDING_MODEL
    node_id: str = ""
    agent_token: str = ""
    snapshot_public_key: str = ""
    engine: str = ""


@dataclass(frozen=True)
class _Run:
    engine: str
    known: DemoFile
    now: datetime


@transaction.atomic
def seed_demo(*, engine: str, known: DemoFile, now: datetime) -> DemoFile:
    """`known` is the last run's file, or an empty one."""
    run = _Run(engine, known, now)
    make_partitions(now=now)
    node_id, agent_token = _seed_node(run)
    versions = [_seed_version(run, version) for version in demo.VERSIONS]
    _seed_routes(versions, now)
    tenants = [_seed_tenant(run, row) for row in demo.CLASSES]
    seed_money(tenant=tenants[0], now=now)
    return DemoFile(
        logins=_seed_logins(run, tenants),
        tenants={tenant.name: DemoKey(api_key=_seed_key(run, tenant)) for tenant in tenants},
        node_id=node_id,
        agent_token=agent_token,
        snapshot_public_key=public_key_text(snapshot_key()),
        engine=engine,
    )


def _seed_node(run: _Run) -> tuple[str, str]:
    node = Node.objects.filter(name=demo.NODE).first()
    if node is None:
        node, token = join_node(actor=SYSTEM, name=demo.NODE, gateway_url=settings.GATEWAY_URL, now=run.now)
        return str(node.pk), token
    token = run.known.agent_token
    is_known = node.token_sha256 == sha256_of(token)
    return str(node.pk), token if is_known else reissue_agent_token(actor=SYSTEM, node=node, now=run.now)


def _seed_version(run: _Run, row: demo.DemoVersion) -> ModelVersion:
    model = Model.objects.filter(name=row.model).first()
    model = model or create_model(actor=SYSTEM, name=row.model, task=row.task, now=run.now)
    version = ModelVersion.objects.filter(model=model, label=row.label).first()
    settings_of_engine = msgspec.structs.asdict(row.engines[run.engine]) | {"engine": run.engine}
    if version is None:
        version = create_version(
            actor=SYSTEM, model=model, label=row.label, served_name=row.model, now=run.now, **settings_of_engine
        )
    elif version.engine != run.engine:
        change_engine(actor=SYSTEM, version=version, now=run.now, **settings_of_engine)
    _seed_price_and_deployment(row, version, run.now)
    return version


def _seed_price_and_deployment(row: demo.DemoVersion, version: ModelVersion, now: datetime) -> None:
    if not PriceEntry.objects.filter(version=version).exists():
        set_price(actor=SYSTEM, version=version, price=row.price, effective_from=now, now=now)
    if not Deployment.objects.filter(name=row.deployment).exists():
        create_deployment(actor=SYSTEM, name=row.deployment, version=version, now=now)


def _seed_routes(versions: list[ModelVersion], now: datetime) -> None:
    for name in (demo.CHAT_MODEL, demo.EMBEDDING_MODEL):
        if Route.objects.filter(public_name=name).exists():
            continue
        targets = [version for version in versions if version.model.name == name]
        weights = {version.pk: demo.CANARY_WEIGHTS[version.label] for version in targets}
        create_route(actor=SYSTEM, public_name=name, weights=weights, now=now)


def _seed_tenant(run: _Run, row: demo.DemoClass) -> Tenant:
    tenant = Tenant.objects.present().filter(name=row.name).first()
    if tenant is not None:
        return tenant
    service_class = ServiceClass.objects.filter(name=row.name).first()
    profile = SLOProfile.objects.filter(name=row.name).first()
    return open_tenant(
        actor=SYSTEM,
        name=row.name,
        service_class=service_class or create_service_class(actor=SYSTEM, name=row.name, rank=row.rank, now=run.now),
        slo_profile=profile
        or create_slo_profile(actor=SYSTEM, name=row.name, ttft_ms=row.ttft_ms, tpot_ms=row.tpot_ms, now=run.now),
        now=run.now,
    )


def _seed_logins(run: _Run, tenants: list[Tenant]) -> list[DemoLogin]:
    logins = [
        _seed_login(run, username="admin", role="platform_admin"),
        _seed_login(run, username="operator", role="operator"),
        _seed_login(run, username="finance", role="finance"),
    ]
    for tenant in tenants:
        for role, suffix in ((Role.TENANT_ADMIN, "admin"), (Role.DEVELOPER, "dev")):
            login = _seed_login(run, username=f"{tenant.name}-{suffix}", role=role.value, tenant=tenant.name)
            _seed_membership(tenant, login, run.now)
            logins.append(login)
    return logins


def _seed_login(run: _Run, *, username: str, role: str, tenant: str = "") -> DemoLogin:
    known = next((login.password for login in run.known.logins if login.username == username), "")
    user = User.objects.filter(username=username).first()
    password = known if user and user.check_password(known) else secrets.token_urlsafe(PASSWORD_BYTES)
    if user is None:
        create_user(
            actor=SYSTEM,
            username=username,
            password=password,
            is_platform_admin=role == "platform_admin",
            is_operator=role == "operator",
            is_finance=role == "finance",
            now=run.now,
        )
    elif password != known:
        change_password(actor=SYSTEM, user=user, password=password, now=run.now)
    return DemoLogin(username=username, password=password, role=role, tenant=tenant)


def _seed_membership(tenant: Tenant, login: DemoLogin, now: datetime) -> None:
    user = User.objects.get(username=login.username)
    if not Membership.objects.filter(tenant=tenant, user=user).exists():
        add_member(actor=SYSTEM, tenant=tenant, user=user, role=login.role, now=now)


def _seed_key(run: _Run, tenant: Tenant) -> str:
    known = run.known.tenants.get(tenant.name)
    keys = APIKey.objects.usable(run.now).filter(tenant=tenant)
    if known is not None and keys.filter(key_sha256=sha256_of(known.api_key)).exists():
        return known.api_key
    for key in keys.filter(name=KEY_NAME):
        revoke_key(actor=SYSTEM, key=key, now=run.now)
    owner = User.objects.get(username=f"{tenant.name}-dev")
    _, text = create_key(actor=SYSTEM, tenant=tenant, name=KEY_NAME, owner_id=owner.pk, now=run.now)
    return text

"""Compiling the snapshot that gateways serve from, and publishing it when its content changed."""

import hmac
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings

from apps.common import live
from apps.common.services import lead
from apps.common.valkey import wake_links_on_commit
from apps.deployments.models import Deployment, ReplicaState, Revision
from apps.deployments.policies.rollout import Pool
from apps.deployments.selectors import list_pools, list_serving
from apps.fleet.selectors import list_gateway_urls
from apps.limits.selectors.compiled import compile_limits
from apps.quotas.selectors import list_policies, list_service_classes, list_slo_profiles
from apps.registry.models import ModelVersion
from apps.registry.selectors import list_versions
from apps.routing.models import Route, SnapshotGeneration
from apps.routing.policies import Placed, content_sha256, nodes_by_version, origins_of, weights_while_rolling
from apps.routing.selectors.routes import list_routes
from apps.routing.services.rollouts import move_finished_targets, note_what_gateways_know
from apps.telemetry.selectors.prompts import list_keeping_tenants, prompt_key_text
from apps.tenants.models import APIKey
from apps.tenants.selectors import list_usable_keys
from apps.usage.policies.pricing import ListPrice
from apps.usage.selectors.prices import get_discounts_in_force, get_prices_in_force
from workers.contracts import snapshot as contract
from workers.contracts.signing import sign

KEPT_GENERATIONS = 50
# For another controller's turn to end, which may have read before what this one was woken for.
PATIENCE_S = 2.0


def publish_snapshot(*, holder: str, now: datetime) -> int | None:
    """The new generation, or None when nothing changed or another process leads."""
    with lead("routing", holder=holder, patience_s=PATIENCE_S) as fence:
        if fence is None:
            return None
        pools = list_pools()
        move_finished_targets(pools, now=now)
        generation = _publish_if_changed(pools, now)
        note_what_gateways_know(now=now)
        return generation


def _publish_if_changed(pools: Sequence[Pool], now: datetime) -> int | None:
    newest = SnapshotGeneration.objects.defer("envelope").first()
    generation = newest.generation + 1 if newest else 1
    snapshot = compile_snapshot(generation=generation, pools=pools, now=now)
    content = content_sha256(snapshot)
    if newest is not None and newest.content_sha256 == content:
        return None
    envelope = sign(snapshot, snapshot_key()).decode()
    SnapshotGeneration.objects.create(generation=generation, content_sha256=content, envelope=envelope, compiled_at=now)
    SnapshotGeneration.objects.filter(generation__lte=generation - KEPT_GENERATIONS).delete()
    wake_links_on_commit()
    live.publish_on_commit(live.ROUTES, {"generation": generation})
    return generation


def snapshot_key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(settings.SNAPSHOT_SEED)


def _peer_secret() -> str:
    """The same in every snapshot, so that nodes with different generations know each other."""
    return hmac.new(settings.SNAPSHOT_SEED, b"gateways of other nodes", sha256).hexdigest()


def compile_snapshot(*, generation: int, pools: Sequence[Pool], now: datetime) -> contract.Snapshot:
    """Deterministic: the same rows give the same bytes, whatever the order they were written in."""
    policies = list(list_policies().order_by("tenant_id"))
    known = {policy.tenant_id for policy in policies}
    discounts = get_discounts_in_force(now=now)
    routes = [_route_of(route, pools) for route in list_routes().order_by("public_name")]
    keeping = list_keeping_tenants()
    gateways = list_gateway_urls()
    return contract.Snapshot(
        generation=generation,
        compiled_at=now.timestamp(),
        service_classes=[contract.ServiceClass(name=row.name, rank=row.rank) for row in list_service_classes()],
        slo_profiles=[
            contract.SLOProfile(name=row.name, ttft_ms=row.ttft_ms, tpot_ms=row.tpot_ms) for row in list_slo_profiles()
        ],
        tenants=[
            contract.TenantPolicy(
                tenant_id=str(policy.tenant_id),
                name=policy.tenant.full_name,
                service_class=policy.service_class.name,
                slo_profile=policy.slo_profile.name,
                weight=policy.weight,
                max_queued_requests=policy.max_queued_requests,
                discounts_bp=discounts.get(policy.tenant_id, {}),
                keeps_prompts=policy.tenant_id in keeping,
            )
            for policy in policies
        ],
        keys=[_grant_of(key) for key in list_usable_keys(now=now) if key.tenant_id in known],
        versions=_versions(routes, now, nodes_by_version(_placed()) if len(gateways) > 1 else {}),
        routes=routes,
        cors_origins=origins_of(settings.WEB_URL),
        limits=compile_limits(now=now),
        trusted_proxies=settings.GATEWAY_TRUSTED_PROXIES,
        media_hosts=settings.GATEWAY_MEDIA_HOSTS,
        gateways=[contract.GatewayAddress(node_id=str(node_id), url=url) for node_id, url in gateways],
        prompt_key=prompt_key_text() if keeping else "",
        peer_secret=_peer_secret() if len(gateways) > 1 else "",
    )


def _grant_of(key: APIKey) -> contract.KeyGrant:
    return contract.KeyGrant(
        key_id=str(key.pk),
        key_sha256=key.key_sha256,
        tenant_id=str(key.tenant_id),
        user_id=str(key.owner_id or ""),
        expires_at=key.expires_at.timestamp() if key.expires_at else None,
        models=sorted(key.allowed_models),
        paths=key.allowed_paths,
        networks=key.allowed_networks,
    )


def _placed() -> Iterator[Placed]:
    ready = (ReplicaState.READY, ReplicaState.DEGRADED)
    rows = list_serving().values_list("revision__version_id", "node_id", "state")
    return (Placed(version_id, node_id, state in ready) for version_id, node_id, state in rows)


def _versions(
    routes: Sequence[contract.Route], now: datetime, nodes: Mapping[UUID, list[str]]
) -> list[contract.Version]:
    ids = {target.version_id for route in routes for target in route.targets}
    versions = list(list_versions().filter(pk__in=ids).order_by("id"))
    prices = get_prices_in_force(version_ids=[version.pk for version in versions], now=now)
    free = ListPrice(contract.Price())
    deployments = _deployment_ids(versions)
    return [
        contract.Version(
            version_id=str(version.pk),
            model=version.model.name,
            label=version.label,
            served_name=version.served_name,
            deployment_id=deployments.get(version.pk, ""),
            task=version.model.task,
            max_context_tokens=version.max_context_tokens,
            price=(prices[version.pk] or free).price,
            batch_discount_bp=(prices[version.pk] or free).batch_discount_bp,
            node_ids=nodes.get(version.pk, []),
        )
        for version in versions
    ]


def _deployment_ids(versions: Sequence[ModelVersion]) -> dict[UUID, str]:
    """The oldest deployment of each version, or the one that is on its way from it to another."""
    rows = Revision.objects.filter(version__in=versions).order_by("-deployment_id")
    found = {
        version_id: str(deployment_id) for version_id, deployment_id in rows.values_list("version_id", "deployment_id")
    }
    own = Deployment.objects.filter(version__in=versions).order_by("-id").values_list("version_id", "id")
    return found | {version_id: str(deployment_id) for version_id, deployment_id in own}


def _route_of(route: Route, pools: Sequence[Pool]) -> contract.Route:
    weights = weights_while_rolling({t.version_id: t.weight for t in route.targets.all()}, pools)
    return contract.Route(
        public_name=route.public_name,
        created_at=int(route.created_at.timestamp()),
        targets=[contract.RouteTarget(version_id=str(pk), weight=weights[pk]) for pk in sorted(weights)],
        alternatives=[str(target.version_id) for target in route.alternatives],
    )

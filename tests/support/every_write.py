"""For every address that changes something: what is sent to it so that it does, as the platform's admin.

A text of the form `<name>` in a body stands for that part of an address.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.utils import timezone

from apps.common.actors import SYSTEM
from apps.deployments.models import Deployment, Replica
from apps.deployments.services.deployments import Change, change_deployment, drain_replica
from apps.fleet.services.joining import create_join_token
from apps.identity.models import SecondFactor, SignInSession
from apps.limits.models import Limit
from apps.limits.services.limits import raise_limit
from apps.registry.services import create_model
from apps.routing.models import RouteTarget
from apps.telemetry.services.prompts import keep_prompts
from apps.tenants.models import APIKey, Tenant
from apps.tenants.services import create_service_account
from apps.tenants.services.tokens import create_service_token
from tests.factories.domain import NOW, make_deployment, make_node, make_version
from workers.simulator.experiments import list_traces

LATER = (timezone.now() + timedelta(days=1)).isoformat()
POLICY = {"service_class": "first", "slo_profile": "quick"}
NEW_PASSWORD = "a stable that is battery powered"


@dataclass(frozen=True)
class Write:
    """`parts` are parts of the address that are something else than usual; `prepare` changes rows before."""

    body: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    prepare: object = None
    by: str = "platform_admin"


def parts_of(yard):
    """One of each, and besides it one that nothing uses, so that it may go."""
    chief, tenant = yard.people.platform_admin, yard.people.tenant
    account = create_service_account(actor=SYSTEM, tenant=tenant, name="bot", role="viewer", now=NOW)
    own, _ = create_service_token(actor=SYSTEM, owner=chief, name="own", now=NOW)
    of_account, _ = create_service_token(actor=SYSTEM, owner=account.user, name="bot's", now=NOW)
    session = SignInSession.objects.create(user=chief, started_at=NOW, seen_at=NOW, address="", browser="")
    SignInSession.objects.create(user=yard.people.viewer, started_at=NOW, seen_at=NOW, address="", browser="")
    SecondFactor.objects.create(user=yard.people.viewer, sealed_secret="", created_at=NOW, confirmed_at=NOW)
    token, text = create_join_token(actor=SYSTEM, now=timezone.now())
    idle = make_deployment(make_version("v9"), replica_count=0)
    rolled = make_deployment(make_version("v7"))
    change_deployment(actor=SYSTEM, deployment=rolled, change=Change(version=make_version("v8")), now=NOW)
    return yard.address_parts | {
        "account_id": account.pk,
        "own_token_id": own.pk,
        "account_token_id": of_account.pk,
        "session_id": session.pk,
        "join_token_id": token.pk,
        "join_token": text,
        "spare_node_id": make_node("spare").pk,
        "spare_model_id": create_model(actor=SYSTEM, name="spare", task="generate", now=NOW).pk,
        "spare_version_id": make_version("v6").pk,
        "idle_id": idle.pk,
        "rolled_id": rolled.pk,
        "replica_id": Replica.objects.get(node=yard.node).pk,
        "canary_id": RouteTarget.objects.exclude(version_id=yard.deployment.version_id).get().version_id,
        "trace": list_traces()[0],
        "request_id": yard.raise_request.pk,
        "class_id": tenant.policy.service_class_id,
        "profile_id": tenant.policy.slo_profile_id,
    }


def _drained(parts):
    drain_replica(actor=SYSTEM, replica=Replica.objects.get(pk=parts["replica_id"]), now=NOW)


def _raised(parts):
    limit = Limit.objects.get(pk=parts["limit_id"])
    raise_limit(actor=SYSTEM, limit=limit, amount=100, until=timezone.now() + timedelta(days=1), now=NOW)


def _without_keys(parts):
    APIKey.objects.filter(tenant_id=parts["tenant_id"]).update(revoked_at=NOW)


def _kept(parts):
    keep_prompts(actor=SYSTEM, tenant=Tenant.objects.get(pk=parts["tenant_id"]), days=7, now=NOW)


def _paused(parts):
    Deployment.objects.filter(pk=parts["deployment_id"]).update(is_rollout_paused=True)


_A = "api/v1/"
_T = f"{_A}tenants/<uuid:tenant_id>/"
_ACCOUNT = f"{_T}service-accounts/<uuid:membership_id>/"
_LIMIT = f"{_A}limits/<uuid:limit_id>/"
_PRICE = {"version_id": "<version_id>", "input_pico_usd": 1, "cached_input_pico_usd": 1, "output_pico_usd": 1}
_RERATING = {"start": "2026-11-01T00:00:00Z", "end": "2026-11-02T00:00:00Z", "reason": "a contract"}
_TARGETS = {"targets": [{"version_id": "<version_id>", "weight": 5}]}
_VERSION = {"label": "v77", "engine": "fake", "source": "fake", "served_name": "demo-chat"}
_JOINING = {"username": "newcomer", "role": "viewer", "password": NEW_PASSWORD}

REST = {
    ("POST", f"{_T}members/"): Write(_JOINING),
    ("PATCH", f"{_T}members/<uuid:membership_id>/"): Write({"role": "developer"}),
    ("DELETE", f"{_T}members/<uuid:membership_id>/"): Write(),
    ("POST", f"{_T}invitations/"): Write({"email": "other@example.org", "role": "viewer"}),
    ("DELETE", f"{_T}invitations/<uuid:invitation_id>/"): Write(),
    ("POST", f"{_T}service-accounts/"): Write({"name": "other", "role": "viewer"}),
    ("DELETE", _ACCOUNT): Write(parts={"membership_id": "account_id"}),
    ("POST", f"{_ACCOUNT}tokens/"): Write({"name": "more"}, {"membership_id": "account_id"}),
    ("DELETE", f"{_ACCOUNT}tokens/<uuid:token_id>/"): Write(
        parts={"membership_id": "account_id", "token_id": "account_token_id"}
    ),
    ("POST", f"{_A}users/"): Write({"username": "newcomer", "password": NEW_PASSWORD}),
    ("PATCH", f"{_A}users/<uuid:user_id>/"): Write({"is_finance": True}),
    ("POST", f"{_A}api-keys/"): Write({"tenant_id": "<tenant_id>", "name": "key"}),
    ("DELETE", f"{_A}api-keys/<uuid:key_id>/"): Write(),
    ("POST", f"{_A}api-keys/<uuid:key_id>/rotation/"): Write(),
    ("POST", f"{_A}playground-keys/"): Write({"tenant_id": "<tenant_id>"}),
    ("POST", f"{_A}service-tokens/"): Write({"name": "more"}),
    ("DELETE", f"{_A}service-tokens/<uuid:token_id>/"): Write(parts={"token_id": "own_token_id"}),
    ("DELETE", f"{_A}sessions/"): Write(),
    ("DELETE", f"{_A}sessions/<uuid:session_id>/"): Write(),
    ("DELETE", f"{_A}users/<uuid:user_id>/sessions/"): Write(),
    ("DELETE", f"{_A}users/<uuid:user_id>/second-factor/"): Write(),
    ("POST", f"{_A}models/"): Write({"name": "another", "task": "generate"}),
    ("DELETE", f"{_A}models/<uuid:model_id>/"): Write(parts={"model_id": "spare_model_id"}),
    ("POST", f"{_A}models/<uuid:model_id>/versions/"): Write(_VERSION),
    ("PATCH", f"{_A}versions/<uuid:version_id>/"): Write({"licence": "MIT"}),
    ("DELETE", f"{_A}versions/<uuid:version_id>/"): Write(parts={"version_id": "spare_version_id"}),
    ("POST", f"{_A}nodes/"): Write({"name": "another"}),
    ("PATCH", f"{_A}nodes/<uuid:node_id>/"): Write({"is_cordoned": True}),
    ("DELETE", f"{_A}nodes/<uuid:node_id>/"): Write(parts={"node_id": "spare_node_id"}),
    ("POST", f"{_A}join-tokens/"): Write(),
    ("DELETE", f"{_A}join-tokens/<uuid:token_id>/"): Write(parts={"token_id": "join_token_id"}),
    ("POST", f"{_A}nodes/<uuid:node_id>/agent-token/"): Write(),
    ("POST", f"{_A}tenants/"): Write({"name": "another", **POLICY}),
    ("DELETE", _T): Write({"name": "gold"}, prepare=_without_keys),
    ("POST", f"{_T}children/"): Write({"name": "below"}, prepare=_without_keys),
    ("PUT", f"{_T}policy/"): Write({**POLICY, "weight": 2.0}),
    ("POST", f"{_A}service-classes/"): Write({"name": "last", "rank": 9}),
    ("POST", f"{_A}slo-profiles/"): Write({"name": "slow", "ttft_ms": 9000, "tpot_ms": 900}),
    ("POST", f"{_T}limits/"): Write({"kind": "tokens_per_minute", "amount": "5"}),
    ("PUT", f"{_T}limit-settings/"): Write({"time_zone": "Europe/Berlin"}),
    ("POST", f"{_T}blocks/"): Write({"scope": "end_user", "subject": "mallory"}),
    ("POST", f"{_T}raise-requests/"): Write({"limit_id": "<limit_id>", "amount": "500", "reason": "a launch"}),
    ("POST", f"{_A}default-limits/"): Write({"kind": "tokens_per_minute", "amount": "5"}),
    ("PUT", _LIMIT): Write({"amount": "70"}),
    ("DELETE", _LIMIT): Write(),
    ("POST", f"{_LIMIT}reset/"): Write(),
    ("POST", f"{_LIMIT}raise/"): Write({"amount": "700", "until": LATER}),
    ("DELETE", f"{_LIMIT}raise/"): Write(prepare=_raised),
    ("DELETE", f"{_A}blocks/<uuid:block_id>/"): Write(),
    ("POST", f"{_A}raise-requests/<uuid:request_id>/decision/"): Write({"is_approved": True}),
    ("POST", f"{_A}deployments/"): Write({"name": "another", "version_id": "<version_id>"}),
    ("PATCH", f"{_A}deployments/<uuid:deployment_id>/"): Write({"replica_count": 3}),
    ("DELETE", f"{_A}deployments/<uuid:deployment_id>/"): Write(parts={"deployment_id": "idle_id"}),
    ("POST", f"{_A}deployments/<uuid:deployment_id>/rollout/pause/"): Write(),
    ("DELETE", f"{_A}deployments/<uuid:deployment_id>/rollout/pause/"): Write(prepare=_paused),
    ("POST", f"{_A}deployments/<uuid:deployment_id>/rollout/undo/"): Write(parts={"deployment_id": "rolled_id"}),
    ("POST", f"{_A}replicas/<uuid:replica_id>/drain/"): Write(),
    ("DELETE", f"{_A}replicas/<uuid:replica_id>/drain/"): Write(prepare=_drained),
    ("POST", f"{_A}replicas/<uuid:replica_id>/restart/"): Write(),
    ("POST", f"{_A}accelerator-prices/"): Write({"ownership": "owned", "hour_pico_usd": 1}),
    ("POST", f"{_A}budgets/"): Write({"name": "another", "amount_usd": "5"}),
    ("DELETE", f"{_A}budgets/<uuid:budget_id>/"): Write(),
    ("POST", f"{_A}prices/"): Write(_PRICE),
    ("POST", f"{_A}discounts/"): Write({"tenant_id": "<tenant_id>", "discount_bp": 100}),
    ("POST", f"{_A}reratings/"): Write(_RERATING),
    ("POST", f"{_A}reratings/<uuid:rerating_id>/"): Write({"action": "cancel"}),
    ("PUT", f"{_T}prompts/"): Write({"days": 7}, by="owner"),
    ("DELETE", f"{_T}prompts/"): Write(by="owner", prepare=_kept),
    ("POST", f"{_A}routes/"): Write({"public_name": "another", **_TARGETS}),
    ("PATCH", f"{_A}routes/<uuid:route_id>/"): Write(_TARGETS),
    ("DELETE", f"{_A}routes/<uuid:route_id>/"): Write(),
    ("POST", f"{_A}apply"): Write({"documents": [{"kind": "Model", "name": "applied", "task": "generate"}]}),
    ("POST", f"{_A}apply/"): Write({"documents": [{"kind": "Model", "name": "applied", "task": "generate"}]}),
}

_C = "tenants/<uuid:tenant_id>/"
_CA = f"{_C}service-accounts/<uuid:membership_id>/"
_NODE = "fleet/<uuid:node_id>/"
_DEPLOYMENT = "deployments/<uuid:deployment_id>/"
_FORM_VERSION = {**_VERSION, "confirmed": "1"}
_FORM_POLICY = {"service_class": "<class_id>", "slo_profile": "<profile_id>", "weight": "2", "max_queued_requests": "5"}
_FORM_LIMIT = {"scope": "tenant", "kind": "tokens_per_minute", "amount": "5"}
_FORM_PRICE = {
    "version": "<version_id>",
    "input_usd": "1",
    "cached_input_usd": "1",
    "output_usd": "1",
    "request_usd": "0",
    "batch_discount_percent": "0",
}
_EXPERIMENT = {
    "trace": "<trace>", "policies": ["tokenyard"], "replicas": "1", "engine": "llama3-8b/a100/tp1", "load": "1",
    "ttft_slo_s": "2", "tpot_slo_ms": "150", "seed": "1",
}  # fmt: skip

CONSOLE = {
    "account/password/": Write({"password": NEW_PASSWORD, "again": NEW_PASSWORD, "repeated": NEW_PASSWORD}),
    "account/sessions/end/": Write(),
    "account/sessions/<uuid:session_id>/end/": Write(),
    "account/tokens/": Write({"name": "more", "scopes": ["self"], "lifetime_s": ""}),
    "account/tokens/<uuid:token_id>/revoke/": Write(parts={"token_id": "own_token_id"}),
    "users/<uuid:user_id>/": Write({"is_active": "on", "is_finance": "on"}),
    "users/<uuid:user_id>/sessions/end/": Write(),
    "users/<uuid:user_id>/device/remove/": Write(),
    f"{_NODE}cordon/": Write({"is_cordoned": "1"}),
    "fleet/act/": Write({"act": "cordon", "chosen": "<node_id>", "confirmed": "1"}),
    "fleet/join/": Write(),
    f"{_NODE}drain/": Write({"is_draining": "1"}),
    f"{_NODE}labels/": Write({"labels": "zone=a"}),
    f"{_NODE}remove/": Write(parts={"node_id": "spare_node_id"}),
    "models/new/": Write({"name": "another", "task": "generate"}),
    "models/<uuid:model_id>/versions/new/": Write(_FORM_VERSION),
    "models/versions/<uuid:version_id>/deploy/": Write(
        {
            "name": "another",
            "replica_count": "1",
            "max_running_requests": "8",
            "on": "auto",
            "strategy": "spread",
            "confirmed": "1",
        }
    ),
    "replicas/<uuid:replica_id>/act/": Write({"act": "restart"}),
    f"{_DEPLOYMENT}rollout/": Write({"act": "pause"}),
    f"{_DEPLOYMENT}scale/": Write({"replica_count": "3", "confirmed": "1"}),
    "routes/new/": Write({"public_name": "another", "version": "<version_id>", "confirmed": "1"}),
    "routes/<uuid:route_id>/": Write(
        {"weight_<version_id>": "5", "goes_<canary_id>": "on", "weight_<canary_id>": "0", "confirmed": "1"}
    ),
    "lab/": Write(_EXPERIMENT),
    "tenants/new/": Write({"name": "another", **_FORM_POLICY}),
    f"{_C}remove/": Write({"name": "gold"}, prepare=_without_keys),
    f"{_C}policy/": Write({**_FORM_POLICY, "confirmed": "1"}),
    f"{_C}members/new/": Write(_JOINING),
    f"{_C}members/<uuid:membership_id>/role/": Write({"role": "developer"}),
    f"{_C}members/<uuid:membership_id>/remove/": Write(),
    f"{_C}invitations/": Write({"email": "other@example.org", "role": "viewer"}),
    f"{_C}invitations/<uuid:invitation_id>/withdraw/": Write(),
    f"{_C}below/": Write({"name": "below"}, prepare=_without_keys),
    f"{_C}service-accounts/": Write({"name": "other", "role": "viewer"}),
    _CA: Write({"name": "more", "scopes": ["self"], "lifetime_s": ""}, {"membership_id": "account_id"}),
    f"{_CA}tokens/<uuid:token_id>/revoke/": Write(
        parts={"membership_id": "account_id", "token_id": "account_token_id"}
    ),
    f"{_CA}remove/": Write(parts={"membership_id": "account_id"}),
    f"{_C}prompts/keep/": Write({"days": "7"}, by="owner"),
    f"{_C}prompts/forget/": Write(by="owner", prepare=_kept),
    f"{_C}keys/revoke/": Write({"chosen": "<key_id>", "confirmed": "1"}),
    f"{_C}keys/": Write({"name": "key", "lifetime_s": ""}),
    "keys/<uuid:key_id>/rotate/": Write({"overlap_s": "0"}),
    "keys/<uuid:key_id>/revoke/": Write(),
    f"{_C}playground/key/": Write(),
    "limits/defaults/": Write(_FORM_LIMIT),
    "limits/<uuid:limit_id>/change/": Write({"amount": "70"}),
    "limits/<uuid:limit_id>/reset/": Write(),
    "limits/<uuid:limit_id>/raise/": Write({"amount": "700", "hours": "1"}),
    "limits/<uuid:limit_id>/remove/": Write(),
    "blocks/<uuid:block_id>/lift/": Write(),
    "raise-requests/<uuid:raise_id>/decide/": Write({"decision": "approve"}),
    f"{_C}limits/set/": Write(_FORM_LIMIT),
    f"{_C}limits/settings/": Write({"time_zone": "Europe/Berlin", "degraded": "share"}),
    f"{_C}blocks/": Write({"scope": "end_user", "subject": "mallory"}),
    f"{_C}raise-requests/": Write({"limit_id": "<limit_id>", "amount": "500", "reason": "a launch"}),
    "budgets/new/": Write({"name": "another", "amount_usd": "5", "zone": "UTC", "thresholds": "50"}),
    "budgets/<uuid:budget_id>/delete/": Write(),
    "prices/new/": Write({**_FORM_PRICE, "confirmed": "1"}),
    "prices/discount/": Write({"tenant": "<tenant_id>", "percent": "5", "confirmed": "1"}),
    "prices/accelerator/": Write({"ownership": "owned", "hour_usd": "1", "confirmed": "1"}),
    "reratings/": Write({"start": "2026-11-01 00:00", "end": "2026-11-02 00:00", "reason": "a contract"}),
    "reratings/<uuid:rerating_id>/cancel/": Write(),
}

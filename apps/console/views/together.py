"""Acts on several things: posted once the page shows what would be done, posted again with `confirmed` it is done."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.timezone import now
from django.views.decorators.http import require_POST

from apps.common.errors import DomainError, InvalidInputError
from apps.common.ids import read_uuid
from apps.console.access import ConsoleRequest, operators, page
from apps.console.rendering import render_page, sentence
from apps.fleet.models import Node
from apps.fleet.selectors import list_nodes
from apps.fleet.services.nodes import set_cordon, set_drain
from apps.tenants import policies
from apps.tenants.matrix import Permission
from apps.tenants.models import APIKey
from apps.tenants.selectors import get_tenant, list_keys
from apps.tenants.services import revoke_key

MOST = 200


@dataclass(frozen=True, kw_only=True)
class Act:
    title: str
    button: str
    consequence: str
    do: Callable[[ConsoleRequest, Any], object]
    is_dangerous: bool = False


@dataclass(frozen=True)
class Chosen:
    pk: UUID
    name: str
    detail: str


def _cordon(is_cordoned: bool) -> Callable[[ConsoleRequest, Node], object]:
    return lambda request, node: set_cordon(actor=request.actor, node=node, is_cordoned=is_cordoned, now=now())


def _drain(is_draining: bool) -> Callable[[ConsoleRequest, Node], object]:
    return lambda request, node: set_drain(actor=request.actor, node=node, is_draining=is_draining, now=now())


NODE_ACTS = {
    "cordon": Act(
        title="Cordon nodes",
        button="Cordon them",
        consequence="No new replica is placed on these. What runs there goes on serving.",
        do=_cordon(is_cordoned=True),
    ),
    "uncordon": Act(
        title="Uncordon nodes",
        button="Uncordon them",
        consequence="New replicas may be placed on these again. Nothing that runs is moved.",
        do=_cordon(is_cordoned=False),
    ),
    "drain": Act(
        title="Drain nodes",
        button="Drain them",
        consequence="Their replicas get nothing new, finish what they have, and stop; others take their places on "
        "other nodes where there is room. No stream is cut off.",
        do=_drain(is_draining=True),
        is_dangerous=True,
    ),
}
REVOKE = Act(
    title="Revoke keys",
    button="Revoke them",
    consequence="Every gateway refuses these within a second or two; requests that run finish. This cannot be undone.",
    do=lambda request, key: revoke_key(actor=request.actor, key=key, now=now()),
    is_dangerous=True,
)


@page(operators)
@require_POST
def nodes_act(request: ConsoleRequest) -> HttpResponseBase:
    act = NODE_ACTS.get(request.POST.get("act", ""))
    if act is None:
        raise InvalidInputError("there is no such act")
    nodes = list_nodes().filter(pk__in=_chosen_ids(request))
    return _act_on(request, act, nodes, describe=_described_node, back=("Fleet", reverse("console:fleet")))


@page(Permission.CREATE_KEYS)
@require_POST
def keys_revoke(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    tenant = get_tenant(actor=request.actor, tenant_id=tenant_id)
    found = list_keys(actor=request.actor, tenant_id=tenant.pk).filter(pk__in=_chosen_ids(request), revoked_at=None)
    own = [key for key in found if policies.may_revoke_key(request.actor, key.tenant_id, key.owner_id)]
    back = (f"Keys of {tenant.name}", reverse("console:keys", args=[tenant.pk]))
    return _act_on(request, REVOKE, own, describe=_described_key, back=back)


def _act_on(
    request: ConsoleRequest,
    act: Act,
    things: Iterable[Any],
    *,
    describe: Callable[[Any], Chosen],
    back: tuple[str, str],
) -> HttpResponseBase:
    found = list(things)
    refusals = _done(request, act, found) if found and "confirmed" in request.POST else None
    if refusals == []:
        messages.success(request, f"{act.title}: done, {len(found)}.")
        return redirect(back[1])
    context = {
        "title": act.title,
        "button": act.button,
        "consequence": act.consequence,
        "is_dangerous": act.is_dangerous,
        "act": request.POST.get("act", ""),
        "things": [describe(each) for each in found],
        "refusals": refusals or [],
        "back_label": back[0],
        "back_url": back[1],
    }
    return render_page(request, "together.html", context)


def _done(request: ConsoleRequest, act: Act, things: Iterable[Any]) -> list[str]:
    """Why it was not done, for those where it was not; one that is refused does not keep the others from it."""
    refusals = []
    for each in things:
        try:
            act.do(request, each)
        except DomainError as error:
            refusals.append(f"{each}: {sentence(error.message)}")
    return refusals


def _chosen_ids(request: ConsoleRequest) -> list[UUID]:
    found = [read_uuid(text) for text in request.POST.getlist("chosen")[:MOST]]
    return [each for each in found if each is not None]


def _described_node(node: Node) -> Chosen:
    marks = ["cordoned"] * node.is_cordoned + ["draining"] * node.is_draining
    return Chosen(node.pk, node.name, ", ".join([node.state, *marks]))


def _described_key(key: APIKey) -> Chosen:
    return Chosen(key.pk, key.name, f"ty-{key.prefix}…")

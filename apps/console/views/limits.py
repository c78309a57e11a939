"""What a tenant may use and uses now; what operators allow, raise, reset and block."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.conf import settings
from django.forms import Form
from django.http import HttpResponseBase, QueryDict
from django.utils.timezone import now

from apps.console import limit_forms as forms
from apps.console.access import ConsoleRequest, operators, page
from apps.console.policies.snippets import api_call
from apps.console.rendering import render_page
from apps.limits.models import Limit, LimitEvent, RaiseState, Scope
from apps.limits.policies import amount_of, is_uuid, may_change, may_set_for
from apps.limits.selectors import limits as selectors
from apps.limits.selectors.use import LimitUse, list_use
from apps.tenants.matrix import Permission
from apps.tenants.models import Tenant
from apps.tenants.selectors import get_tenant, list_keys, list_members, name_keys, name_users

EVENTS_SHOWN = 10
REQUESTS_SHOWN = 50
SUBJECTS_OFFERED = 200


@page(Permission.SEE_TENANT)
def tenant_limits(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    return render_tenant_limits(request, get_tenant(actor=request.actor, tenant_id=tenant_id), {})


@page(operators)
def limits(request: ConsoleRequest) -> HttpResponseBase:
    return render_limits(request, new_limit_form(request), {})


def new_limit_form(request: ConsoleRequest, sent: QueryDict | None = None) -> forms.LimitForm:
    return forms.LimitForm(sent, auto_id="limit_%s", is_operator=request.actor.is_operator)


def form_key(name: str, limit: Limit) -> str:
    return f"{name}_{limit.pk}"


def auto_id_of(name: str, limit: Limit) -> str:
    return f"{form_key(name, limit)}_%s"


def render_limits(request: ConsoleRequest, form: Form, bound: Mapping[str, Form]) -> HttpResponseBase:
    requests = selectors.list_raise_requests(actor=request.actor)
    uses = [LimitUse(limit=limit, amount=limit.amount, used=None, ends_at=None) for limit in _defaults()]
    context = {
        "rows": [_row(request, use, bound) for use in uses],
        "pending": requests.filter(state=RaiseState.PENDING)[:REQUESTS_SHOWN],
        "decided": requests.exclude(state=RaiseState.PENDING)[:EVENTS_SHOWN],
        "limit_form": form,
        "api": _api_call("/api/v1/default-limits/"),
    }
    return render_page(request, "limits.html", context)


def _defaults() -> list[Limit]:
    return list(selectors.list_default_limits())


def render_tenant_limits(request: ConsoleRequest, tenant: Tenant, bound: Mapping[str, Form]) -> HttpResponseBase:
    """`bound` are forms that were sent and refused, by their names; those of one limit by form_key."""
    found, moment = list(selectors.list_limits(actor=request.actor, tenant_id=tenant.pk)), now()
    rows = [_row(request, use, bound) for use in list_use(limits=found, tenant_id=tenant.pk, now=moment)]
    settings_row = selectors.get_settings(tenant.pk)
    events = list(selectors.list_events(actor=request.actor, tenant_id=tenant.pk)[:EVENTS_SHOWN])
    context: dict[str, Any] = {
        "tenant": tenant,
        "rows": rows,
        "names": _names_in(rows, events),
        "blocks": [
            {"block": block, "may_change": may_change(request.actor, block.setter, tenant.pk)}
            for block in selectors.list_blocks(actor=request.actor, tenant_id=tenant.pk)
        ],
        "requests": selectors.list_raise_requests(actor=request.actor, tenant_id=tenant.pk)[:EVENTS_SHOWN],
        "events": events,
        "settings": settings_row,
        "may_set": may_set_for(request.actor, tenant.pk),
        "subjects": _subjects(request, tenant),
        "limit_form": new_limit_form(request),
        "block_form": forms.BlockForm(auto_id="block_%s", is_operator=request.actor.is_operator),
        "raise_form": forms.RaiseAskForm(limits=[], auto_id="raise_%s"),
        "settings_form": forms.LimitSettingsForm(
            initial={"time_zone": settings_row.time_zone, "degraded": settings_row.degraded}
        ),
        "api": _api_call(f"/api/v1/tenants/{tenant.pk}/limits/"),
    } | dict(bound)
    context["raise_form"].fields["limit_id"].widget.choices = [
        (str(row["limit"].pk), str(row["limit"])) for row in rows
    ]
    return render_page(request, "tenant_limits.html", context)


def _names_in(rows: list[dict[str, Any]], events: Iterable[LimitEvent]) -> dict[UUID, str]:
    """Of the keys and members that limits and what happened at them name by their ids. End users name themselves."""
    named = [(row["limit"].scope, row["limit"].subject) for row in rows]
    named += [(event.limit.scope, event.subject) for event in events]
    ids = {UUID(subject) for scope, subject in named if scope != Scope.END_USER and is_uuid(subject)}
    return name_keys(ids) | name_users(ids)


def _subjects(request: ConsoleRequest, tenant: Tenant) -> list[tuple[UUID, str]]:
    """Ids that a limit may name, with what people call them."""
    keys = list_keys(actor=request.actor, tenant_id=tenant.pk).usable(now())[:SUBJECTS_OFFERED]
    members = list_members(actor=request.actor, tenant_id=tenant.pk)[:SUBJECTS_OFFERED]
    named = [(key.pk, f"key {key}") for key in keys]
    return named + [(member.user_id, f"member {member.user}") for member in members]


def _row(request: ConsoleRequest, use: LimitUse, bound: Mapping[str, Form]) -> dict[str, Any]:
    limit = use.limit
    change, raised = (bound.get(form_key(name, limit)) for name in ("change", "raise"))
    is_refused = change is not None or raised is not None
    return {
        "limit": limit,
        "use": use,
        "change_form": change or _change_form(limit),
        "raise_form": raised or forms.RaiseForm(initial={"amount": _amount(limit)}, auto_id=auto_id_of("raise", limit)),
        "is_refused": is_refused,
        "may_change": may_change(request.actor, limit.setter, limit.tenant_id),
    }


def _change_form(limit: Limit) -> forms.LimitFieldsForm:
    initial = {"amount": _amount(limit), "burst": limit.burst, "soft_percent": limit.soft_percent}
    return forms.LimitFieldsForm(initial=initial, auto_id=auto_id_of("change", limit))


def _amount(limit: Limit) -> str:
    return f"{amount_of(limit.kind, limit.amount):f}"


def _api_call(path: str) -> str:
    body = {"scope": "end_user", "subject": "*", "kind": "tokens_per_day", "amount": "100000", "soft_percent": 80}
    return api_call(web_url=settings.WEB_URL, method="POST", path=path, body=body)

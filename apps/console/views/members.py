"""Who belongs to a tenant: members and their roles, invitations, programs, and the tenants below."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.forms import Form
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_POST, require_safe

from apps.common.errors import DomainError
from apps.console.access import ConsoleRequest, page, require
from apps.console.forms import ChildForm, InviteForm, RoleForm, ServiceAccountForm, TokenForm
from apps.console.lists import csv_answer, is_csv, list_page, sorted_rows
from apps.console.rendering import attempt, render_page, sentence, words_of_refusal
from apps.console.usage_query import read_text
from apps.quotas.services import open_tenant_below
from apps.tenants import policies
from apps.tenants.matrix import Permission, scopes_for
from apps.tenants.models import Role, Tenant
from apps.tenants.selectors import (
    actor_of,
    get_invitation,
    get_member,
    get_service_account,
    get_tenant,
    get_token_of,
    list_children,
    list_invitations,
    list_members,
    list_tokens_of,
)
from apps.tenants.services import (
    change_role,
    create_service_account,
    create_service_token,
    invite,
    remove_member,
    remove_service_account,
    revoke_invitation,
    revoke_service_token,
)

COLUMNS = {"name": "user__username", "email": "user__email", "role": "role", "since": "id"}
CSV = {
    "member": lambda member: member.user.username,
    "email": lambda member: member.user.email,
    "role": lambda member: member.role,
    "is_service_account": lambda member: member.user.is_service_account,
    "since": lambda member: member.created_at,
}
# Several forms are on one page, each with a field of the same name.
INVITE_ID, ACCOUNT_ID, CHILD_ID = "invitation_%s", "account_%s", "below_%s"


@page(Permission.SEE_KEYS)
@require_safe
def members(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    return _show(request, get_tenant(actor=request.actor, tenant_id=tenant_id))


@page(Permission.MANAGE_MEMBERS, is_dangerous=True)
@require_POST
def member_invite(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    tenant = _managed(request, tenant_id)
    form = InviteForm(request.POST, auto_id=INVITE_ID)
    made = attempt(form, lambda: invite(actor=request.actor, tenant=tenant, now=now(), **form.cleaned_data))
    if made is None:
        return _show(request, tenant, invite_form=form)
    return _show(request, tenant, invited={"invitation": made[0], "link": made[1]})


@page(Permission.MANAGE_MEMBERS)
@require_POST
def invitation_withdraw(request: ConsoleRequest, tenant_id: UUID, invitation_id: UUID) -> HttpResponseBase:
    found = get_invitation(actor=request.actor, tenant_id=tenant_id, invitation_id=invitation_id)
    _managed(request, tenant_id)
    revoke_invitation(actor=request.actor, invitation=found, now=now())
    messages.success(request, f"The invitation of {found.email} no longer works.")
    return redirect("console:members", tenant_id)


@page(Permission.MANAGE_MEMBERS, is_dangerous=True)
@require_POST
def member_role(request: ConsoleRequest, tenant_id: UUID, membership_id: UUID) -> HttpResponseBase:
    member = get_member(actor=request.actor, tenant_id=tenant_id, membership_id=membership_id)
    _managed(request, tenant_id)
    form = RoleForm(request.POST)
    done = f"{member.user} has another role now; it counts at once."
    return _tried(
        request,
        form,
        lambda: change_role(actor=request.actor, membership=member, now=now(), **form.cleaned_data),
        tenant_id,
        done,
    )


@page(Permission.MANAGE_MEMBERS, is_dangerous=True)
@require_POST
def member_remove(request: ConsoleRequest, tenant_id: UUID, membership_id: UUID) -> HttpResponseBase:
    member = get_member(actor=request.actor, tenant_id=tenant_id, membership_id=membership_id)
    _managed(request, tenant_id)
    try:
        remove_member(actor=request.actor, membership=member, now=now())
    except DomainError as error:
        messages.error(request, sentence(error.message))
    else:
        messages.success(request, f"{member.user} is no longer a member; the member's keys are revoked.")
    return redirect("console:members", tenant_id)


@page(Permission.MANAGE_TENANT, is_dangerous=True)
@require_POST
def service_account_create(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    tenant = _managed(request, tenant_id)
    form = ServiceAccountForm(request.POST, auto_id=ACCOUNT_ID)
    made = attempt(
        form, lambda: create_service_account(actor=request.actor, tenant=tenant, now=now(), **form.cleaned_data)
    )
    if made is None:
        return _show(request, tenant, account_form=form)
    return redirect("console:service_account", tenant_id, made.pk)


@page(Permission.MANAGE_TENANT, is_dangerous=True)
def service_account(request: ConsoleRequest, tenant_id: UUID, membership_id: UUID) -> HttpResponseBase:
    """Its tokens; a posted form makes one, whose text is in the answer and nowhere else."""
    member = get_service_account(actor=request.actor, tenant_id=tenant_id, membership_id=membership_id)
    tenant = _managed(request, tenant_id)
    form = TokenForm(request.POST or None, scopes=scopes_for(actor_of(member.user)), now=now())
    made = attempt(
        form, lambda: create_service_token(actor=request.actor, owner=member.user, now=now(), **form.values())
    )
    context = {
        "tenant": tenant,
        "member": member,
        "tokens": list_tokens_of(member=member).filter(revoked_at=None),
        "form": form,
        "created": {"token": made[0], "text": made[1]} if made else None,
    }
    return render_page(request, "service_account.html", context)


@page(Permission.MANAGE_TENANT, is_dangerous=True)
@require_POST
def service_account_token_revoke(
    request: ConsoleRequest, tenant_id: UUID, membership_id: UUID, token_id: UUID
) -> HttpResponseBase:
    member = get_service_account(actor=request.actor, tenant_id=tenant_id, membership_id=membership_id)
    _managed(request, tenant_id)
    token = get_token_of(member=member, token_id=token_id)
    revoke_service_token(actor=request.actor, token=token, now=now())
    messages.success(request, f"{token.name} is revoked.")
    return redirect("console:service_account", tenant_id, member.pk)


@page(Permission.MANAGE_TENANT, is_dangerous=True)
@require_POST
def service_account_remove(request: ConsoleRequest, tenant_id: UUID, membership_id: UUID) -> HttpResponseBase:
    member = get_service_account(actor=request.actor, tenant_id=tenant_id, membership_id=membership_id)
    _managed(request, tenant_id)
    remove_service_account(actor=request.actor, member=member, now=now())
    messages.success(request, f"{member.user} is gone, and its tokens and keys with it.")
    return redirect("console:members", tenant_id)


@page(Permission.MANAGE_TENANT)
@require_POST
def tenant_below(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    parent = _managed(request, tenant_id)
    form = ChildForm(request.POST, auto_id=CHILD_ID)
    made = attempt(form, lambda: open_tenant_below(actor=request.actor, parent=parent, now=now(), **form.cleaned_data))
    if made is None:
        return _show(request, parent, child_form=form)
    messages.success(request, f"{made.name} is open, served as {parent.name} is.")
    return redirect("console:members", tenant_id)


def _managed(request: ConsoleRequest, tenant_id: UUID) -> Tenant:
    tenant = get_tenant(actor=request.actor, tenant_id=tenant_id)
    require(policies.may_manage_members(request.actor, tenant.pk))
    return tenant


def _tried(
    request: ConsoleRequest, form: Form, change: Callable[[], Any], tenant_id: UUID, done: str
) -> HttpResponseBase:
    if attempt(form, change) is None:
        messages.error(request, words_of_refusal(form))
    else:
        messages.success(request, done)
    return redirect("console:members", tenant_id)


def _show(request: ConsoleRequest, tenant: Tenant, **changes: Any) -> HttpResponseBase:
    may_manage = policies.may_manage_members(request.actor, tenant.pk)
    invitations = list_invitations(actor=request.actor, tenant_id=tenant.pk) if may_manage else []
    search = read_text(request.GET, "q")
    found = list_members(actor=request.actor, tenant_id=tenant.pk, search=search)
    if is_csv(request.GET):
        return csv_answer("members", CSV, sorted_rows(found, request.GET, COLUMNS, default="-since"))
    listing = list_page(found, request.GET, COLUMNS, default="-since")
    context = {
        "tenant": tenant,
        "members": listing.rows,
        "listing": listing,
        "search": search,
        "children": list_children(actor=request.actor, tenant_id=tenant.pk),
        "invitations": [each for each in invitations if each.is_open(now())],
        "may_manage": may_manage,
        "roles": Role.choices,
        "invite_form": InviteForm(auto_id=INVITE_ID),
        "account_form": ServiceAccountForm(auto_id=ACCOUNT_ID),
        "child_form": ChildForm(auto_id=CHILD_ID),
        "invited": None,
    }
    return render_page(request, "members.html", context | changes)

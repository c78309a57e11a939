"""The end of a tenant: what would go and what stays, before anything is done."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_http_methods

from apps.console.access import ConsoleRequest, page, require
from apps.console.forms import RemovalForm
from apps.console.navigation import home_of
from apps.console.rendering import attempt, render_page
from apps.tenants.matrix import Permission
from apps.tenants.policies import may_remove_tenant
from apps.tenants.selectors import actor_of, get_tenant
from apps.tenants.services import count_what_goes, reasons_against_removal, remove_tenant


@page(Permission.MANAGE_TENANT, is_dangerous=True)
@require_http_methods(["GET", "HEAD", "POST"])
def tenant_remove(request: ConsoleRequest, tenant_id: UUID) -> HttpResponseBase:
    tenant, moment = get_tenant(actor=request.actor, tenant_id=tenant_id), now()
    require(may_remove_tenant(request.actor, tenant.pk, tenant.parent_id))
    form = RemovalForm(request.POST or None, name=tenant.name)
    if attempt(form, lambda: remove_tenant(actor=request.actor, tenant=tenant, now=moment) or True):
        messages.success(request, f"{tenant.full_name} is removed. What it used is still on its bill.")
        return redirect("console:tenants" if request.actor.is_operator else home_of(actor_of(request.user)))
    context = {
        "tenant": tenant,
        "form": form,
        "goes": count_what_goes(tenant),
        "reasons": reasons_against_removal(tenant, moment),
    }
    return render_page(request, "tenant_remove.html", context)

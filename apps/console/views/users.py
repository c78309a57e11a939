"""Who may sign in, and who holds a role of the platform. For platform admins."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.audit.selectors import list_entries_of
from apps.console.access import ConsoleRequest, page
from apps.console.forms import UserForm
from apps.console.lists import csv_answer, is_csv, list_page, sorted_rows
from apps.console.rendering import attempt, render_page
from apps.console.usage_query import read_text
from apps.identity.selectors import find_second_factor
from apps.identity.services.second_factor import remove_second_factor
from apps.identity.services.sessions import end_sessions_of
from apps.tenants.matrix import Permission
from apps.tenants.selectors import count_working_keys_of, get_user_by_id, list_users
from apps.tenants.services import change_access

CSV = {
    "user": lambda user: user.username,
    "email": lambda user: user.email,
    "is_active": lambda user: user.is_active,
    "is_platform_admin": lambda user: user.is_platform_admin,
    "is_operator": lambda user: user.is_operator,
    "is_finance": lambda user: user.is_finance,
    "last_sign_in": lambda user: user.last_login,
}


@page(Permission.MANAGE_USERS)
@require_safe
def users(request: ConsoleRequest) -> HttpResponseBase:
    search = read_text(request.GET, "q")
    found, columns = (
        list_users(search=search),
        {"name": "username", "email": "email", "seen": "last_login", "since": "id"},
    )
    if is_csv(request.GET):
        return csv_answer("users", CSV, sorted_rows(found, request.GET, columns, default="-since"))
    listing = list_page(found, request.GET, columns, default="-since")
    context = {"users": listing.rows, "listing": listing, "search": search}
    return render_page(request, "users.html", context)


@page(Permission.MANAGE_USERS, is_dangerous=True)
@require_http_methods(["GET", "HEAD", "POST"])
def user(request: ConsoleRequest, user_id: UUID) -> HttpResponseBase:
    person = get_user_by_id(user_id)
    initial = {name: getattr(person, name) for name in UserForm.base_fields}
    form = UserForm(request.POST if request.method == "POST" else None, initial=initial)
    changed = attempt(form, lambda: change_access(actor=request.actor, user=person, now=now(), **form.cleaned_data))
    if changed is not None:
        messages.success(request, f"What {person.username} may do is changed; it counts at once.")
        return redirect("console:user", person.pk)
    context = {
        "person": person,
        "form": form,
        "has_device": find_second_factor(person) is not None,
        "key_count": count_working_keys_of(person, now=now()),
        "events": list_entries_of(subject_type="user", subject_id=str(person.pk), limit=8),
    }
    return render_page(request, "user.html", context)


@page(Permission.MANAGE_USERS, is_dangerous=True)
@require_POST
def user_sessions_end(request: ConsoleRequest, user_id: UUID) -> HttpResponseBase:
    person = get_user_by_id(user_id)
    count = end_sessions_of(actor=request.actor, user=person, now=now())
    messages.success(request, f"{person.username} is signed out of {count} browser{'' if count == 1 else 's'}.")
    return redirect("console:user", person.pk)


@page(Permission.MANAGE_USERS, is_dangerous=True)
@require_POST
def user_device_remove(request: ConsoleRequest, user_id: UUID) -> HttpResponseBase:
    person = get_user_by_id(user_id)
    remove_second_factor(actor=request.actor, user=person, now=now())
    messages.success(request, f"{person.username} signs in without a device until a new one is added.")
    return redirect("console:user", person.pk)

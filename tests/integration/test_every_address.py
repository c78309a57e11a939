"""Every address of the project, each method, each role, somebody of another tenant and nobody: as the matrix says.

The addresses come from the resolver, so a new one without a rule fails here.
"""

import re
from uuid import UUID

import pytest
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, get_resolver

from apps.tenants.matrix import MATRIX, Permission, Role
from tests.factories.yard import make_yard

# Some thousand requests each, on machines that may be busy.
pytestmark = [pytest.mark.integration, pytest.mark.django_db, pytest.mark.timeout(600)]

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
PERSON_OF = {
    "platform_admin": Role.PLATFORM_ADMIN,
    "operator": Role.OPERATOR,
    "finance": Role.FINANCE,
    "owner": Role.TENANT_ADMIN,
    "teammate": Role.DEVELOPER,
    "viewer": Role.VIEWER,
    "roleless": Role.ANYONE,
}
# What belongs to a tenant: to a stranger it does not exist.
OF_A_TENANT = {
    "tenant_id", "membership_id", "key_id", "record_id", "label", "invitation_id", "budget_id",
}  # fmt: skip
# Where the role alone does not decide: whose key it is, or that there is a tenant at all.
FINER = {
    ("DELETE", "api/v1/api-keys/<uuid:key_id>/", "teammate"),
    ("POST", "api/v1/api-keys/<uuid:key_id>/rotation/", "teammate"),
    ("POST", "keys/<uuid:key_id>/revoke/", "teammate"),
    ("POST", "keys/<uuid:key_id>/rotate/", "teammate"),
    ("POST", "tenants/<uuid:tenant_id>/keys/", "viewer"),
    ("DELETE", "api/v1/tenants/<uuid:tenant_id>/", "owner"),
    ("GET", "tenants/<uuid:tenant_id>/remove/", "owner"),
    ("POST", "tenants/<uuid:tenant_id>/remove/", "owner"),
}
# Whether an admin may change it depends on who set it: an operator's is not the admin's to change.
BY_WHO_SET_IT = {"limit_id", "block_id"}
NOWHERE = UUID("00000000-0000-7000-8000-000000000000")


def addresses(patterns=None, prefix=""):
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield route, pattern
        else:
            yield from addresses(pattern.url_patterns, route)


ADDRESSES = dict(addresses())


def rules_of(pattern):
    callback = pattern.callback
    return getattr(callback, "rules", None) or getattr(getattr(callback, "cls", None), "rules", None) or {}


def methods_of(pattern):
    view = getattr(pattern.callback, "cls", None)
    return [m for m in METHODS if view is None or hasattr(view, m.lower())]


def permission_of(pattern, method):
    rules = rules_of(pattern)
    return rules.get(method) or rules.get("*")


def may_at(person, pattern, method):
    """By the rule, or by the permission that a view takes in its place."""
    also = getattr(getattr(pattern.callback, "cls", None), "also", {}).get(method)
    rules = [each for each in (permission_of(pattern, method), also) if each]
    return any(PERSON_OF[person] in MATRIX[each] for each in rules)


def path_of(route, pattern, yard):
    path = "/" + route.replace("^api/", "api/no/such/path/")
    for name, converter in pattern.pattern.converters.items():
        shown = next(part for part in path.split("/") if part.endswith(f":{name}>"))
        path = path.replace(shown, part_of(name, converter, yard))
    return path


def part_of(name, converter, yard):
    """Two addresses may give one name to different things: then what is there does not fit."""
    known = str(yard.address_parts.get(name, NOWHERE))
    return known if re.fullmatch(converter.regex, known) else str(NOWHERE)


def answers(client, yard, query=""):
    """(method, route, permission, answer) of every address, each asked as if nothing had been changed before."""
    cookies = client.cookies.copy()
    for route, pattern in ADDRESSES.items():
        for method in methods_of(pattern):
            client.cookies = cookies.copy()  # signing out is an address, too
            with transaction.atomic():
                path = path_of(route, pattern, yard) + query
                asked = client.generic(method, path, "{}", content_type="application/json")
                close_files(asked)
                transaction.set_rollback(True)
            yield method, route, permission_of(pattern, method), asked


def close_files(answer):
    """`close()` would end the request, and with it the test's connection."""
    for close in getattr(answer, "_resource_closers", []):
        close()


def test_every_method_of_every_address_has_a_rule():
    bare = [
        (route, method)
        for route, pattern in ADDRESSES.items()
        for method in methods_of(pattern)
        if not isinstance(permission_of(pattern, method), Permission)
    ]
    assert bare == []


def test_the_matrix_has_a_row_for_every_permission():
    assert set(MATRIX) == set(Permission)


@pytest.mark.parametrize("person", PERSON_OF)
def test_each_role_gets_as_far_as_the_matrix_says(person, valkey):
    yard = make_yard()
    client = Client()
    client.force_login(getattr(yard.people, person))
    wrong = []
    for method, route, permission, answer in answers(client, yard):
        is_let_in = answer.status_code not in {401, 403}
        is_allowed = may_at(person, ADDRESSES[route], method) and (method, route, person) not in FINER
        is_open = person == "owner" and bool(BY_WHO_SET_IT & set(ADDRESSES[route].pattern.converters))
        if (is_let_in != is_allowed and not is_open) or answer.status_code >= 500:
            wrong.append((method, route, permission, answer.status_code))
    assert wrong == []


def test_whatever_may_be_written_by_rest_may_be_tried_first(valkey):
    yard = make_yard()
    client = Client()
    client.force_login(yard.people.platform_admin)
    refused = []
    for method, route, permission, answer in answers(client, yard, "?dry_run=1"):
        is_write = route.startswith("api/v1/") and method != "GET" and Role.PLATFORM_ADMIN in MATRIX[permission]
        if is_write and (answer.status_code == 403 or answer.status_code >= 500):
            refused.append((method, route, answer.status_code))
    assert refused == []


def test_to_somebody_of_another_tenant_nothing_of_this_one_exists(valkey):
    yard = make_yard()
    client = Client()
    client.force_login(yard.people.stranger)
    seen = [
        (method, route, answer.status_code)
        for method, route, _, answer in answers(client, yard)
        if OF_A_TENANT & set(ADDRESSES[route].pattern.converters) and answer.status_code not in {403, 404, 405}
    ]
    assert seen == []


def test_nobody_gets_past_the_door(valkey):
    yard = make_yard()
    passed = [
        (method, route, answer.status_code)
        for method, route, permission, answer in answers(Client(), yard)
        if permission is not Permission.OPEN and not is_shown_the_door(answer)
    ]
    assert passed == []


def is_shown_the_door(answer):
    return answer.status_code == 401 or (answer.status_code == 302 and answer["Location"].startswith("/sign-in/"))

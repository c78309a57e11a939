"""Every address that changes something leaves an audit entry that names who did it, or says here why it need not."""

import json
import re

import pytest
from django.test import Client

from apps.audit.models import AuditEntry
from tests.factories.yard import make_yard
from tests.integration.test_every_address import ADDRESSES, methods_of, path_of
from tests.support.every_write import CONSOLE, REST, parts_of

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

WITHOUT_ENTRY_BY_THE_ASKER = {
    "api/v1/placement/preview/": "changes nothing",
}
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")


@pytest.fixture
def yard(valkey):
    return make_yard()


@pytest.fixture
def chief(yard):
    client = Client()
    client.force_login(yard.people.platform_admin)
    return client


def filled(body, parts):
    if isinstance(body, dict):
        return {name: filled(value, parts) for name, value in body.items()}
    if isinstance(body, list):
        return [filled(value, parts) for value in body]
    return str(parts[body[1:-1]]) if isinstance(body, str) and re.fullmatch("<[a-z_]+>", body) else body


def address(route, parts, write):
    for kind, name in re.findall(r"<(\w+):(\w+)>", route):
        route = route.replace(f"<{kind}:{name}>", str(parts[write.parts.get(name, name)]))
    return f"/{route}"


def entries_by(user):
    return AuditEntry.objects.filter(actor_id=user.pk).count()


def complaints(answer):
    """What a form or an answer says is wrong."""
    text = answer.content.decode()
    said = re.findall(r'class="(?:field-error|form-error|message|flash|invalid)[^>]*>\s*([^<]+)', text)
    return said or text[:300]


@pytest.mark.parametrize(("method", "route"), REST)
def test_a_write_by_rest_names_who_did_it(yard, chief, method, route):
    write, parts = REST[method, route], parts_of(yard)
    if write.prepare:
        write.prepare(parts)
    before, body = entries_by(yard.people.platform_admin), json.dumps(filled(write.body, parts))
    answer = chief.generic(method, address(route, parts, write), body, content_type="application/json")
    assert 200 <= answer.status_code < 300, complaints(answer)
    assert entries_by(yard.people.platform_admin) > before


@pytest.mark.parametrize("route", CONSOLE)
def test_a_form_of_the_console_names_who_sent_it(yard, chief, route):
    write, parts = CONSOLE[route], parts_of(yard)
    if write.prepare:
        write.prepare(parts)
    before = entries_by(yard.people.platform_admin)
    answer = chief.post(address(route, parts, write), filled(write.body, parts))
    assert entries_by(yard.people.platform_admin) > before, (answer.status_code, complaints(answer))

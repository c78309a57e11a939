"""Every address that changes something leaves an audit entry that names who did it, or it says here why it need not."""

import inspect
import json
import re

import pytest
from django.db import connection, transaction
from django.test import Client

from apps.audit.models import AuditEntry
from tests.factories.yard import make_yard
from tests.integration.test_every_address import ADDRESSES, methods_of
from tests.support.every_write import CONSOLE, REST, parts_of

pytestmark = [pytest.mark.integration, pytest.mark.django_db, pytest.mark.timeout(300)]

UNSAFE = {"POST", "PUT", "PATCH", "DELETE"}
WITHOUT = {
    "api/v1/placement/preview/": "a question whose body is long",
    "api/v1/join/": "who asks is nobody yet: the entry is the node's",
    "api/v1/usage/quarantine/<uuid:quarantined_id>/": "the yard's record is damaged; tests of usage release one",
    "palette/": "a search",
    "sign-in/": "who asks is not signed in yet; tests of signing in read the entries",
    "sign-in/code/": "likewise",
    "sign-in/provider/": "goes to the provider",
    "sign-in/reset/": "who asks is not signed in",
    "sign-in/reset/<str:token>/": "likewise: the entry is of the person whose letter it was",
    "invitations/<str:token>/": "who asks may be nobody yet: the entry is the newcomer's",
    "sign-out/": "ends the asker's own browser session, and nothing else",
    "account/confirm/": "notes in the asker's own browser session that the password was given",
    "account/device/": "needs a device's code: tests of signing in",
    "account/device/remove/": "needs a device: tests of signing in",
    "account/recovery-codes/": "needs a device: tests of signing in",
    "requests/<uuid:record_id>/prompt/": "reads what was kept; tests of kept prompts read the entries",
    "records/<uuid:quarantined_id>/release/": "the yard's record is damaged; tests of usage release one",
    "reratings/<uuid:rerating_id>/apply/": "the yard's has changed nothing; tests of rating apply one",
}


class Yard:
    """Each write is done on it as if there had been none before."""

    def __init__(self):
        self._yard = make_yard()
        self._parts = parts_of(self._yard)
        self._clients = {name: self._signed_in(name) for name in ("platform_admin", "owner")}

    def _signed_in(self, name):
        client = Client()
        client.force_login(getattr(self._yard.people, name))
        client.get("/api/v1/me/")  # a session's first request notes since when it may do what
        return client

    def try_out(self, write, method, route):
        """What a dry run answers, and what else is other after it: tables, and what was to be done on commit."""
        client, cookies = self._clients[write.by], self._clients[write.by].cookies.copy()
        with transaction.atomic():
            if write.prepare:
                write.prepare(self._parts)
            before = tables(), len(connection.run_on_commit)
            sent, path = json.dumps(filled(write.body, self._parts)), address(route, self._parts, write)
            answer = getattr(client, method.lower())(f"{path}?dry_run=1", sent, content_type="application/json")
            after = tables(), len(connection.run_on_commit)
            transaction.set_rollback(True)
        client.cookies = cookies
        return answer, [name for name in before[0] if before[0][name] != after[0][name]] + [after[1] - before[1]]

    def send(self, write, method, route, **content_type):
        """How many entries name who sent it, and the answer."""
        client, user = self._clients[write.by], getattr(self._yard.people, write.by)
        cookies = client.cookies.copy()
        with transaction.atomic():
            if write.prepare:
                write.prepare(self._parts)
            mine = AuditEntry.objects.filter(actor_id=user.pk)
            before, body = mine.count(), filled(write.body, self._parts)
            sent = json.dumps(body) if content_type else body
            answer = getattr(client, method.lower())(address(route, self._parts, write), sent, **content_type)
            count = mine.count() - before
            transaction.set_rollback(True)
        client.cookies = cookies
        return count, answer


def tables():
    """By name, a digest of all that is in it."""
    digest = "SELECT '{0}', md5(coalesce(string_agg(each::text, '|' ORDER BY each::text), '')) FROM \"{0}\" each"
    names = connection.introspection.table_names()
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(digest.format(name) for name in names))
        return dict(cursor.fetchall())


def filled(body, parts):
    if isinstance(body, dict):
        return {with_parts(name, parts): filled(value, parts) for name, value in body.items()}
    if isinstance(body, list):
        return [filled(value, parts) for value in body]
    return with_parts(body, parts) if isinstance(body, str) else body


def with_parts(text, parts):
    return re.sub("<([a-z_]+)>", lambda found: str(parts[found[1]]), text)


def address(route, parts, write):
    for kind, name in re.findall(r"<(\w+):(\w+)>", route):
        route = route.replace(f"<{kind}:{name}>", str(parts[write.parts.get(name, name)]))
    return f"/{route}"


def described(schema, method, route):
    """What the description says of this address: by status, the names of the schemas of its body."""
    path = "/" + re.sub(r"<\w+:(\w+)>", r"{\1}", route)
    operations = schema["paths"].get(path) or schema["paths"][path.rstrip("/")]
    answers = operations[method.lower()]["responses"]
    return {status: set(re.findall(r"/schemas/(\w+)", json.dumps(each))) for status, each in answers.items()}


def complaints(answer):
    text = answer.content.decode()
    return re.findall(r'class="[^"]*error[^"]*"[^>]*>\s*([^<]+)', text) or text[:300]


def takes_a_form(pattern):
    source = inspect.getsource(inspect.unwrap(pattern.callback))
    return bool(re.search(r'require_POST|"POST"|request\.POST', source))


def test_every_write_by_rest_names_who_did_it(valkey):
    yard, wrong = Yard(), []
    for (method, route), write in REST.items():
        count, answer = yard.send(write, method, route, content_type="application/json")
        if answer.status_code >= 300 or not count:
            wrong.append((method, route, answer.status_code, answer.content[:300]))
    assert wrong == []


def test_every_write_by_rest_answers_with_a_status_that_is_described(valkey):
    yard, wrong = Yard(), []
    schema = Client().get("/api/schema/", headers={"accept": "application/json"}).json()
    for (method, route), write in REST.items():
        _, answer = yard.send(write, method, route, content_type="application/json")
        known = described(schema, method, route)
        # a dry run is answered 200 everywhere: that alone does not describe an answer that is none
        status = str(answer.status_code)
        if status not in known or known[status] == {"DryRun"}:
            wrong.append((method, route, answer.status_code, known))
    assert wrong == []


def test_a_dry_run_of_every_write_leaves_everything_as_it_was(valkey):
    yard, wrong = Yard(), []
    for (method, route), write in REST.items():
        answer, changed = yard.try_out(write, method, route)
        if answer.status_code != 200 or changed != [0]:
            wrong.append((method, route, answer.status_code, answer.content[:300], changed))
    assert wrong == []


def test_every_form_of_the_console_names_who_sent_it(valkey):
    yard, wrong = Yard(), []
    for route, write in CONSOLE.items():
        count, answer = yard.send(write, "POST", route)
        if not count:
            wrong.append((route, answer.status_code, complaints(answer)))
    assert wrong == []


def test_no_address_that_changes_something_is_left_out():
    by_rest = {
        (method, route)
        for route, pattern in ADDRESSES.items()
        if route.startswith("api/v1/") and route not in WITHOUT
        for method in methods_of(pattern)
        if method in UNSAFE
    }
    forms = {
        route
        for route, pattern in ADDRESSES.items()
        if not route.startswith(("api/", "^api/")) and takes_a_form(pattern)
    }
    assert by_rest == set(REST)
    assert forms - set(WITHOUT) == set(CONSOLE)
    assert set(WITHOUT) - set(ADDRESSES) == set()

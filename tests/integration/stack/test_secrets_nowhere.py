"""Secrets are used on a running stack, rightly and wrongly; then every byte that any process wrote is looked at."""

import http.cookiejar
import json
import re
import secrets
import urllib.error
import urllib.parse
import urllib.request
import zlib
from contextlib import suppress

import pytest
import redis

from deploy.local import credentials, valkey
from tests.integration.stack.test_local_stack import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

PROMPT = f"planted-prompt-{secrets.token_hex(8)}"
GUESSED = f"guessed-{secrets.token_hex(8)}"
# Where a person finds what is shown once, and what the processes themselves sign in with.
MEANT_TO_HOLD = ("demo.json", "secrets", "terminal", "mail")
CHECKPOINT = "from django.db import connection\nconnection.cursor().execute('CHECKPOINT')"
_STREAM = re.compile(rb"stream\r?\n(.*?)endstream", re.DOTALL)


class Person:
    """A browser without a screen."""

    def __init__(self, address, login):
        self._address = address
        jar = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
        self._opener.open(f"{address}/sign-in/", timeout=30).read()
        self._cookies = jar
        self._send("/sign-in/", urllib.parse.urlencode({"name": login["username"], "password": login["password"]}))

    def _send(self, path, body, kind="application/x-www-form-urlencoded"):
        token = next(one.value for one in self._cookies if one.name == "tokenyard_csrf")
        headers = {"X-CSRFToken": token, "Referer": self._address, "Content-Type": kind, "Origin": self._address}
        request = urllib.request.Request(f"{self._address}{path}", body.encode(), headers)
        return self._opener.open(request, timeout=30).read()

    def post(self, path, body):
        return json.loads(self._send(path, json.dumps(body), "application/json"))

    def get(self, path):
        return self._opener.open(f"{self._address}{path}", timeout=30).read()


def status_of(request):
    try:
        return urllib.request.urlopen(request, timeout=30).status
    except urllib.error.HTTPError as error:
        return error.code


def ask(demo, key, path="/v1/chat/completions", **body):
    message = {"role": "user", "content": PROMPT}
    body = {"model": demo["model"], "max_tokens": 4, "messages": [message]} | body
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    return status_of(urllib.request.Request(demo["gateway_url"] + path, json.dumps(body).encode(), headers))


def plant(stack):
    """What was shown once, by name."""
    demo = stack.demo
    admin = Person(demo["console_url"], demo["logins"][0])
    tenant = next(one for one in admin_json(admin, "/api/v1/tenants/")["results"] if one["name"] == "gold")["id"]
    key = admin.post("/api/v1/api-keys/", {"tenant_id": tenant, "name": "planted"})
    rotated = admin.post(f"/api/v1/api-keys/{key['id']}/rotation/", {"overlap_s": 3600})
    token = admin.post("/api/v1/service-tokens/", {"name": "planted"})["token"]
    account = admin.post(f"/api/v1/tenants/{tenant}/service-accounts/", {"name": "robot", "role": "viewer"})
    robot = admin.post(f"/api/v1/tenants/{tenant}/service-accounts/{account['id']}/tokens/", {"name": "planted"})
    invited = admin.post(f"/api/v1/tenants/{tenant}/invitations/", {"email": "new@example.org", "role": "viewer"})
    until(lambda: ask(demo, key["key"]) == 200)
    shown = {
        "API key": key["key"],
        "rotated key": rotated["key"],
        "service token": token,
        "service account's token": robot["token"],
        "invitation": invited["link"].split("/invitations/")[1].strip("/"),
        "key of the demo": demo["tenants"]["gold"]["api_key"],
    }
    shown |= {f"password of {one['username']}": one["password"] for one in demo["logins"]}
    return admin, {name: text for name, text in shown.items() if len(text) > 8}  # "admin" is a word, too


def admin_json(person, path):
    return json.loads(person.get(path))


def use_wrongly(demo, planted):
    for text in (*planted.values(), GUESSED):
        bearer = {"Authorization": f"Bearer {text}x"}
        assert ask(demo, f"{text}x") == 401
        for path in ("/api/v1/me/", "/metrics"):
            status_of(urllib.request.Request(demo["console_url"] + path, headers=bearer))
        if text.startswith("ty"):  # what else stands in an address, nobody can tell from a name
            status_of(f"{demo['console_url']}/invitations/{text}x/")
    assert ask(demo, planted["API key"], model="no-such-model") == 404
    assert ask(demo, planted["API key"], path=f"/v1/{planted['API key']}") == 404


def exported(admin):
    """By address. What is packed in a PDF or a Parquet file is unpacked."""
    since = "start=2020-01-01&end=2030-01-01"
    names = ("records.csv", "records.parquet", "focus.csv", "focus.parquet", "outcomes.csv", "statement.pdf")
    found = {}
    for name in names:
        with suppress(urllib.error.HTTPError):
            found[name] = unpacked(admin.get(f"/api/v1/usage/{name}?{since}&month=2026-11"))
    for path in ("/audit.csv", "/api/v1/audit/", "/api/v1/budgets/", "/api/v1/api-keys/", "/api/v1/users/"):
        found[path] = admin.get(path)
    return found


def unpacked(content):
    for packed in _STREAM.findall(content):
        with suppress(zlib.error):
            content += zlib.decompress(packed)
    if content[:4] == b"PAR1":
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to load
        from pyarrow import BufferReader  # noqa: PLC0415

        content += str(pq.read_table(BufferReader(content)).to_pylist()).encode()
    return content


def written(stack):
    """Every file of the stack, Postgres's and its log of changes among them; and all that Valkey holds."""
    ours = [path for path in stack.var.iterdir() if path.name not in MEANT_TO_HOLD]
    for root in (*ours, (stack.layout.postgres / "data").resolve()):
        for path in root.rglob("*"):
            with suppress(OSError):  # a directory, a socket, or gone by now
                yield str(path), path.read_bytes()
    password = credentials.load_or_make(stack.layout.secrets).valkey_password
    with redis.Redis.from_url(valkey.locate(stack.layout.valkey, password=password).url) as client:
        for key in client.scan_iter():
            yield f"Valkey {key}", key + (client.dump(key) or b"")


def leaks(texts, secret):
    return [(name, where) for where, content in texts for name, text in secret.items() if text.encode() in content]


def test_no_secret_and_no_prompt_is_in_any_file_log_export_or_value(stack):
    with stack.up() as supervisor:
        stack.wait_until_ready(supervisor)
        admin, planted = plant(stack)
        use_wrongly(stack.demo, planted)
        until(lambda: b"planted" in admin.get("/api/v1/usage/report.csv?group_by=key"))
        secret = planted | {"prompt": PROMPT, "guessed key": GUESSED}
        assert leaks(exported(admin).items(), secret) == []
        assert stack.command("manage", "shell", "-v", "0", "-c", CHECKPOINT).returncode == 0
        assert leaks(written(stack), secret) == []

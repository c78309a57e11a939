"""Signing in at an identity provider, which is a process of its own and lies where the test says so."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from django.db import connections
from django.test import Client

from apps.audit.models import AuditEntry
from apps.common.sessions import CONFIRMED_AT
from apps.identity import openid
from apps.tenants.models import Membership, User
from tests.support.issuer import CLIENT_ID, CLIENT_SECRET
from tests.support.services import die_with_parent

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

ROOT = Path(__file__).resolve().parents[3]
RULES = {
    "gpu-admins": {"platform": "operator"},
    "gold-devs": {"tenant": "gold", "role": "developer"},
    "gold-leads": {"tenant": "gold", "role": "tenant_admin"},
}


class Provider:
    def __init__(self, url, claims_file):
        self.url = url
        self._file = claims_file
        self.says()

    def says(self, **claims):
        person = {"sub": "s-1", "preferred_username": "ada", "email": "ada@example.org", "groups": ["gold-devs"]}
        self._file.write_text(json.dumps(person | claims))


@pytest.fixture(scope="module")
def issuer(tmp_path_factory):
    claims_file = tmp_path_factory.mktemp("issuer") / "claims.json"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.issuer", str(listener.fileno()), str(claims_file)],
            cwd=ROOT,
            env=os.environ,
            pass_fds=[listener.fileno()],
            preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509 - started before any thread of ours
        )
        try:
            yield Provider(f"http://127.0.0.1:{listener.getsockname()[1]}", claims_file)
        finally:
            process.terminate()
            process.wait(10)


@pytest.fixture
def provider(issuer, settings, people):
    settings.OIDC = {
        "issuer": issuer.url,
        "name": "Example",
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "scopes": "openid profile email",
        "groups_claim": "groups",
        "group_rules": RULES,
    }
    openid.forget_provider()
    issuer.says()
    yield issuer
    openid.forget_provider()


def went_there(browser, after=""):
    """The address that the provider sends the browser back to."""
    start = browser.get(f"/sign-in/provider/?next={after}")
    with requests.get(start["Location"], allow_redirects=False, timeout=10) as answer:
        back = urlsplit(answer.headers["Location"])
    return f"{back.path}?{back.query}"


def sign_in(browser, after=""):
    return browser.get(went_there(browser, after))


def test_a_person_comes_back_signed_in_with_the_roles_of_its_groups(provider, people):
    browser = Client()
    assert sign_in(browser, "/account/")["Location"] == "/account/"
    assert "ada" in browser.get("/account/").content.decode()
    assert list(Membership.objects.filter(user__username="ada").values_list("tenant__name", "role", "source")) == [
        ("gold", "developer", "oidc")
    ]


def test_the_same_subject_is_the_same_user_whatever_its_name_is_now(provider):
    sign_in(Client())
    provider.says(preferred_username="countess", email="new@example.org")
    sign_in(Client())
    assert User.objects.filter(outside_identities__subject="s-1").count() == 1


def test_another_subject_of_the_same_name_is_another_user(provider):
    sign_in(Client())
    provider.says(sub="s-2", email="other@example.org")
    sign_in(Client())
    assert set(User.objects.filter(username__startswith="ada").values_list("username", flat=True)) == {"ada", "ada-1"}


def test_a_local_account_is_not_taken_over_by_its_address(provider, people):
    User.objects.filter(pk=people.owner.pk).update(email="ada@example.org")
    browser = Client()
    assert "has this address already" in sign_in(browser).content.decode()
    assert browser.get("/account/").status_code == 302


@pytest.mark.parametrize("is_verified", [False, "false"], ids=repr)
def test_an_address_that_the_provider_has_not_verified_is_not_taken_for_the_persons(is_verified, provider, people):
    User.objects.filter(pk=people.owner.pk).update(email="ada@example.org")
    provider.says(email_verified=is_verified)
    browser = Client()
    assert sign_in(browser).status_code == 302
    assert User.objects.get(username="ada").email == ""
    provider.says(sub="s-2", preferred_username="bea", email="bea@example.org", email_verified=True)
    sign_in(Client())
    assert User.objects.get(username="bea").email == "bea@example.org"


def test_a_refusal_that_ends_with_a_stop_gets_no_second_one(provider):
    provider.says(email="no address")
    assert "Enter a valid email address.<" in sign_in(Client()).content.decode()


def test_groups_that_are_lost_take_their_roles_with_them(provider, people):
    provider.says(groups=["gold-leads", "gold-devs", "gpu-admins"])
    sign_in(Client())
    user = User.objects.get(username="ada")
    assert (user.is_operator, Membership.objects.get(user=user).role) == (True, "tenant_admin")
    provider.says(groups=["unheard-of"])
    sign_in(Client())
    user.refresh_from_db()
    assert (user.is_operator, Membership.objects.filter(user=user).exists()) == (False, False)


@pytest.mark.parametrize(
    "lie",
    [
        {"iss": "https://elsewhere.example"},
        {"aud": "another-client"},
        {"nonce": "of another browser"},
        {"exp": 1},
        {"is_forged": True},
        {"is_unsigned": True},
        {"sub": ""},
        {"sub": None},
        {"sub": "s" * 256},
        {"sub": "s\x00"},
    ],
    ids=str,
)
def test_a_token_that_is_not_for_us_now_signs_nobody_in(lie, provider):
    provider.says(**lie)
    browser = Client()
    answer = sign_in(browser)
    assert answer.status_code == 502
    assert "identity provider" in answer.content.decode()
    assert browser.get("/account/").status_code == 302
    assert not User.objects.filter(username="ada").exists()


def test_a_key_that_took_the_place_of_another_without_an_id_is_read_for_the_next_try(provider):
    provider.says(unnamed_key=0)
    openid.forget_provider()
    assert sign_in(Client()).status_code == 302
    provider.says(unnamed_key=1)
    assert [sign_in(Client()).status_code for _ in range(2)] == [502, 302]


def test_the_way_back_works_once_and_only_in_the_browser_that_went(provider):
    browser, other = Client(), Client()
    back = went_there(browser)
    assert other.get(back).status_code == 502
    assert browser.get(back)["Location"] == "/"
    assert browser.get(back).status_code == 502


@pytest.mark.parametrize("query", ["", "?code=x", "?code=x&state=y", "?error=access_denied&error_description=no"])
def test_a_made_up_way_back_signs_nobody_in(query, provider):
    browser = Client()
    assert browser.get(f"/sign-in/provider/return/{query}").status_code == 502
    assert browser.get("/account/").status_code == 302


def test_a_provider_that_is_away_is_said_so(provider, settings):
    settings.OIDC = {**settings.OIDC, "issuer": "http://127.0.0.1:1"}
    openid.forget_provider()
    answer = Client().get("/sign-in/provider/")
    assert answer.status_code == 502
    assert "cannot be reached" in answer.content.decode()


def test_without_a_provider_there_is_no_such_way(people):
    assert Client().get("/sign-in/provider/")["Location"] == "/sign-in/"
    assert Client().get("/sign-in/provider/return/?code=x")["Location"] == "/sign-in/"


def test_what_the_provider_grants_is_in_the_audit_trail_and_its_secret_is_not(provider):
    sign_in(Client())
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"user.created", "member.added", "user.signed_in"} <= actions
    assert CLIENT_SECRET not in str(list(AuditEntry.objects.values()))


def confirmed_for_s(browser):
    return time.time() - browser.session[CONFIRMED_AT]


def test_who_confirms_is_asked_by_the_provider_again_and_an_earlier_sign_in_there_does_not_count(provider):
    browser = Client()
    assert "prompt" not in browser.get("/sign-in/provider/")["Location"]
    sign_in(browser)
    asked = parse_qs(urlsplit(browser.get("/sign-in/provider/")["Location"]).query)
    assert (asked["prompt"], asked["max_age"]) == (["login"], ["0"])
    provider.says(auth_time=int(time.time()) - 3600)
    stale = sign_in(browser)
    assert (stale.status_code, "did not ask who you are" in stale.content.decode()) == (502, True)
    provider.says(auth_time=int(time.time()))
    assert sign_in(browser, "/account/")["Location"] == "/account/"
    assert confirmed_for_s(browser) < 60


def test_a_session_at_the_provider_from_long_ago_signs_in_and_confirms_nothing(provider):
    browser = Client()
    provider.says(auth_time=int(time.time()) - 3600)
    assert sign_in(browser).status_code == 302
    assert confirmed_for_s(browser) > 3000
    assert browser.get("/account/device/")["Location"].startswith("/account/confirm/")


@pytest.mark.parametrize("odd", [[], None, {"issuer": "x"}, {"authorization_endpoint": 7}, "text"])
def test_a_provider_that_says_odd_things_of_itself_is_said_so(odd, provider):
    provider.says(metadata=odd)
    answer = Client().get("/sign-in/provider/")
    assert (answer.status_code, "cannot be reached" in answer.content.decode()) == (502, True)
    assert Client().get("/sign-in/").status_code == 200
    provider.says()
    assert sign_in(Client()).status_code == 302


def test_what_a_provider_said_in_a_bad_moment_is_not_believed_for_good(provider):
    sound = requests.get(f"{provider.url}/.well-known/openid-configuration", timeout=10).json()
    provider.says(metadata=sound | {"jwks_uri": f"{provider.url}/nowhere"})
    assert sign_in(Client()).status_code == 502
    provider.says()
    assert sign_in(Client()).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_who_comes_for_the_first_time_in_two_browsers_at_once_is_one_user(provider):
    browsers = [Client() for _ in range(4)]
    ways = [went_there(browser) for browser in browsers]

    def come_back(browser, way):
        try:
            return browser.get(way).status_code
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(browsers)) as threads:
        assert set(threads.map(come_back, browsers, ways)) == {302}
    assert User.objects.filter(outside_identities__subject="s-1").count() == 1

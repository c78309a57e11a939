"""What somebody tries who means no good: other people's links, accounts lifted above their tenant, forged forms."""

import re
from threading import current_thread

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from apps.audit.models import AuditEntry
from apps.common import mail as letters
from apps.common.actors import SYSTEM
from apps.common.errors import ConflictError
from apps.common.rows import no_tenant
from apps.identity.models import PasswordReset
from apps.identity.services import passwords
from apps.routing.services.snapshots import compile_snapshot
from apps.tenants.models import Membership, User
from apps.tenants.services import add_member, change_access, create_service_account, invite
from tests.factories.domain import NOW
from tests.factories.yard import make_yard
from tests.support.web_role import web_role
from workers.contracts.log_lines import without_secrets

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


@pytest.fixture
def yard():
    return make_yard()


@pytest.fixture
def account(yard):
    """A program of the owner's tenant, whose admins make its tokens."""
    return create_service_account(actor=SYSTEM, tenant=yard.people.tenant, name="bot", role="developer", now=NOW).user


def text(response):
    return response.content.decode()


# --- accounts whose tokens others make ------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["is_platform_admin", "is_operator", "is_finance"])
def test_a_service_account_gets_no_role_of_the_platform_which_its_tenants_admin_could_then_use(account, role):
    with pytest.raises(ConflictError, match="no platform role"):
        change_access(actor=SYSTEM, user=account, now=NOW, **{role: True})


def test_a_service_account_joins_no_second_tenant_which_the_firsts_admin_could_then_enter(yard, account):
    with pytest.raises(ConflictError, match="belongs to one tenant"):
        add_member(actor=SYSTEM, tenant=yard.people.other, user=account, role="viewer", now=NOW)


def test_keys_of_who_is_disabled_reach_no_gateway_until_the_person_may_again(yard):
    def keys():
        return [grant.key_id for grant in compile_snapshot(generation=1, pools=[], now=NOW).keys]

    assert str(yard.key.pk) in keys()
    change_access(actor=SYSTEM, user=yard.people.owner, now=NOW, is_active=False)
    assert str(yard.key.pk) not in keys()
    change_access(actor=SYSTEM, user=yard.people.owner, now=NOW, is_active=True)
    assert str(yard.key.pk) in keys()


# --- links that came by letter --------------------------------------------------------------------------------------


@pytest.fixture
def link(yard):
    _, link = invite(actor=SYSTEM, tenant=yard.people.tenant, email="guest@example.org", role="viewer", now=NOW)
    return link[link.index("/invitations/") :]


def strict_browser():
    return Client(enforce_csrf_checks=True)


def post_as_a_browser(browser, path, values, origin="http://testserver"):
    """A real one sends the origin that the page's referrer policy lets it name, and "null" under no-referrer."""
    page = browser.get(path)
    is_named = page.headers["Referrer-Policy"] not in {"no-referrer", "origin"}
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', text(page))[1]
    sent = {**values, "csrfmiddlewaretoken": token}
    return browser.post(path, sent, HTTP_ORIGIN=origin if is_named else "null")


def test_an_invitation_is_accepted_in_a_browser_that_checks_for_forgery(link, settings):
    settings.CSRF_TRUSTED_ORIGINS = ["http://testserver"]
    joined = post_as_a_browser(strict_browser(), link, {"username": "guest", "password": "a long password 1"})
    assert joined.status_code == 302
    assert Membership.objects.filter(user__username="guest").exists()


def test_a_password_is_asked_for_in_a_browser_that_checks_for_forgery(settings):
    settings.CSRF_TRUSTED_ORIGINS = ["http://testserver"]
    assert post_as_a_browser(strict_browser(), "/sign-in/reset/", {"name": "nobody"}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
def test_a_form_from_elsewhere_is_refused(link, origin):
    refused = post_as_a_browser(strict_browser(), link, {"username": "x", "password": "a long password 1"}, origin)
    assert refused.status_code == 403


def test_a_link_that_is_over_says_so_and_tells_nothing_else(yard, link):
    post = {"username": "guest", "password": "a long password 1"}
    assert Client().post(link, post).status_code == 302
    again = Client().get(link)
    assert (again.status_code, "no longer works" in text(again)) == (404, True)
    made_up = Client().get("/invitations/tyi-aaaaaaaa-bbbb/")
    assert text(made_up) == text(again)
    assert yard.people.tenant.name not in text(again)


def test_who_is_signed_in_under_another_address_is_warned_before_joining(yard, link):
    browser = Client()
    browser.force_login(yard.people.stranger)
    assert "went to another address" in text(browser.get(link))


def test_a_letter_is_sent_beside_the_request_so_that_its_time_tells_nothing(
    settings, monkeypatch, django_capture_on_commit_callbacks
):
    settings.LETTERS_AT_ONCE = False
    senders = []
    monkeypatch.setattr(letters, "send_mail", lambda *_: senders.append(current_thread().name))
    with django_capture_on_commit_callbacks(execute=True):
        letters.send_on_commit(to="a@example.org", subject="s", text="t")
    letters._sender.submit(lambda: None).result()
    assert [name.startswith("letters") for name in senders] == [True]


def test_a_letter_for_a_new_password_is_written_beside_the_request(settings, monkeypatch, people):
    """To look whether there is somebody is all that both answers wait for."""
    settings.LETTERS_AT_ONCE = False
    User.objects.filter(pk=people.owner.pk).update(email="owner@example.org")
    writers = []
    write = passwords._send_letter
    monkeypatch.setattr(passwords, "_send_letter", lambda user, _: writers.append((user.pk, current_thread().name)))
    for name in ("owner", "nobody"):
        assert Client().post("/sign-in/reset/", {"name": name}).status_code == 200
    letters._sender.submit(lambda: None).result()
    assert [(pk, name.startswith("letters")) for pk, name in writers] == [(people.owner.pk, True)]
    with web_role(), no_tenant():  # as in a thread of its own, which inherits no scope
        write(User.objects.get(pk=people.owner.pk), timezone.now())
    assert PasswordReset.objects.filter(user=people.owner).exists()


# --- names that are code --------------------------------------------------------------------------------------------


def test_a_name_that_is_code_is_shown_as_text(yard):
    browser = Client()
    browser.force_login(yard.people.owner)
    keys = f"/tenants/{yard.people.tenant.pk}/keys/"
    shown = text(browser.post(keys, {"name": "<script>alert(1)</script>", "lifetime_s": ""}))
    assert "<script>alert(1)</script>" not in shown
    assert "&lt;script&gt;alert(1)" in shown


# --- logs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ty", "tys", "tya", "tyi", "tyj", "typ"])
def test_no_kind_of_credential_is_logged(kind):
    assert "planted" not in without_secrets(f"GET /x/{kind}-abcdefgh-planted/ 404")


# --- who tries without end ------------------------------------------------------------------------------------------


def test_who_knocks_without_end_fills_no_audit_trail(people):
    """One entry for each time that somebody was kept out, however often they knocked meanwhile."""

    def knock():
        for _ in range(30):
            Client().post("/sign-in/", {"name": "owner", "password": "wrong"}, REMOTE_ADDR="203.0.113.1")
        return AuditEntry.objects.filter(action="user.sign_in_blocked", subject_id=str(people.owner.pk)).count()

    with time_machine.travel(NOW, tick=False) as clock:
        assert knock() == 1
        clock.shift(3)
        assert knock() == 2

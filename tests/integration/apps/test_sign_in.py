"""Signing in from outside: password, device code, recovery codes, guessers, sessions, letters."""

import re
from datetime import UTC, datetime
from functools import partial

import pyotp
import pytest
import time_machine
from django.core import mail
from django.test import Client

from apps.audit.models import AuditEntry
from apps.common.actors import SYSTEM
from apps.common.credentials import sha256_of
from apps.identity.models import RecoveryCode, SecondFactor, SignInSession
from apps.identity.services.second_factor import begin_enrolment, confirm_enrolment
from apps.tenants.models import Invitation, Membership, User
from apps.tenants.selectors import actor_of
from apps.tenants.services import change_access, change_password, change_role, create_service_token, invite
from tests.factories.domain import PASSWORD

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

START = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.fixture
def clock():
    with time_machine.travel(START, tick=False) as travelling:
        yield travelling


@pytest.fixture
def device(people, clock):
    """The owner's, with its recovery codes."""
    totp = pyotp.TOTP(begin_enrolment(user=people.owner, now=START))
    actor = actor_of(people.owner)
    codes = confirm_enrolment(actor=actor, user=people.owner, code=totp.at(START), now=START)
    clock.shift(60)
    return totp, codes


def code_now(totp):
    return totp.at(datetime.now(UTC))


def sign_in(browser, name="owner", password=PASSWORD, address="203.0.113.1", **more):
    return browser.post("/sign-in/", {"name": name, "password": password, **more}, REMOTE_ADDR=address)


def is_signed_in(browser):
    return browser.get("/account/").status_code == 200


@pytest.mark.parametrize("name", ["owner", "Owner@example.org", "owner@EXAMPLE.org"])
def test_a_name_or_an_address_signs_in(name, people):
    User.objects.filter(pk=people.owner.pk).update(email="Owner@example.org")
    browser = Client()
    assert sign_in(browser, name=name).status_code == 302
    assert is_signed_in(browser)


@pytest.mark.parametrize(
    ("name", "password"), [("owner", "wrong"), ("nobody", PASSWORD), ("ow\x00ner", PASSWORD), ("", ""), ("owner", "")]
)
def test_what_does_not_belong_together_does_not_sign_in(name, password, people):
    browser = Client()
    assert sign_in(browser, name=name, password=password).status_code == 200
    assert not is_signed_in(browser)


def test_who_is_disabled_does_not_sign_in_and_is_told_nothing_more(people):
    User.objects.filter(pk=people.owner.pk).update(is_active=False)
    disabled, unknown = sign_in(Client()), sign_in(Client(), name="nobody")
    assert "do not belong together" in disabled.content.decode()
    assert "do not belong together" in unknown.content.decode()


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "/\x00"])
def test_signing_in_leads_to_no_other_site(target, people):
    assert sign_in(Client(), next=target)["Location"] == "/"


def test_signing_in_leads_back_to_the_page_that_was_asked_for(people):
    assert sign_in(Client(), next="/usage/?range=7d")["Location"] == "/usage/?range=7d"


def test_a_session_id_from_before_does_not_outlive_the_sign_in(people):
    browser = Client()
    browser.get("/sign-in/")
    session = browser.session
    session["planted"] = "1"
    session.save()
    before = session.session_key
    browser.cookies["tokenyard_session"] = before
    sign_in(browser)
    assert browser.cookies["tokenyard_session"].value != before


# -- guessers


def test_a_guesser_waits_ever_longer(people, clock):
    browser = Client()
    for _ in range(5):
        assert sign_in(browser, password="wrong").status_code == 200
    blocked = sign_in(browser)
    assert blocked.status_code == 429
    assert 1 <= int(blocked["Retry-After"]) <= 2
    clock.shift(3)
    assert sign_in(browser, password="wrong").status_code == 200
    clock.shift(1)
    assert sign_in(browser).status_code == 429


def test_a_guesser_keeps_nobody_out_who_comes_from_elsewhere(people, clock):
    for _ in range(30):
        sign_in(Client(), password="wrong", address="203.0.113.66")
    assert sign_in(Client(), address="203.0.113.66").status_code == 429
    assert sign_in(Client(), address="198.51.100.7").status_code == 302


def test_a_guesser_at_the_same_address_does_not_keep_a_known_browser_out(people, clock):
    browser = Client()
    sign_in(browser)
    browser.post("/sign-out/")
    for number in range(60):
        sign_in(Client(), name=("owner", f"someone{number}")[number % 2], password="wrong")
    assert sign_in(Client()).status_code == 429
    assert sign_in(browser).status_code == 302


def test_one_who_tries_many_names_is_slowed_as_an_address(people, clock):
    for number in range(50):
        sign_in(Client(), name=f"someone{number}", password="wrong")
    assert sign_in(Client(), name="teammate").status_code == 429


def test_all_addresses_of_an_ipv6_network_are_one_guesser(people, clock):
    for number in range(5):
        sign_in(Client(), password="wrong", address=f"2001:db8::{number:x}")
    assert sign_in(Client(), address="2001:db8::ffff").status_code == 429
    assert sign_in(Client(), address="2001:db8:0:1::1").status_code == 302


def test_a_wait_ends_and_a_success_starts_anew(people, clock):
    browser = Client()
    for _ in range(5):
        sign_in(browser, password="wrong")
    clock.shift(5)
    assert sign_in(browser).status_code == 302
    browser.post("/sign-out/")
    assert [sign_in(browser, password="wrong").status_code for _ in range(5)] == [200] * 5


# -- the second factor


def test_with_a_device_the_password_alone_signs_nobody_in(people, device):
    browser = Client()
    assert sign_in(browser)["Location"] == "/sign-in/code/"
    assert not is_signed_in(browser)
    answer = browser.post("/sign-in/code/", {"code": code_now(device[0])})
    assert answer.status_code == 302
    assert is_signed_in(browser)


def test_a_code_is_taken_once(people, device):
    code = code_now(device[0])
    first, second = Client(), Client()
    sign_in(first)
    sign_in(second)
    first.post("/sign-in/code/", {"code": code})
    refused = second.post("/sign-in/code/", {"code": code})
    assert "used already" in refused.content.decode()
    assert not is_signed_in(second)


def test_an_older_code_is_not_taken_after_a_newer_one(people, device, clock):
    older = code_now(device[0])
    clock.shift(30)
    first, second = Client(), Client()
    sign_in(first)
    sign_in(second)
    first.post("/sign-in/code/", {"code": code_now(device[0])})
    second.post("/sign-in/code/", {"code": older})
    assert (is_signed_in(first), is_signed_in(second)) == (True, False)


def test_a_recovery_code_works_once_and_is_stored_as_a_hash(people, device):
    _, codes = device
    stored = set(RecoveryCode.objects.values_list("code_sha256", flat=True))
    assert stored == {sha256_of(code.replace("-", "")) for code in codes}
    for expected in (True, False):
        browser = Client()
        sign_in(browser)
        browser.post("/sign-in/code/", {"code": codes[0].upper()})
        assert is_signed_in(browser) is expected


def test_codes_cannot_be_guessed(people, device):
    browser = Client()
    sign_in(browser)
    answers = [browser.post("/sign-in/code/", {"code": f"{number:06}"}) for number in range(6)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429]


def test_the_code_page_is_closed_to_who_gave_no_password(people, device, clock):
    browser = Client()
    assert browser.get("/sign-in/code/")["Location"] == "/sign-in/"
    sign_in(browser)
    clock.shift(301)
    assert browser.post("/sign-in/code/", {"code": code_now(device[0])})["Location"] == "/sign-in/"


def test_a_device_is_enrolled_by_its_first_code_and_its_secret_is_sealed(people, clock):
    browser = Client()
    sign_in(browser)
    shown = browser.get("/account/device/").content.decode()
    secret = re.search(r'id="device-secret">(\w+)<', shown)[1]
    assert "Is not the device" in browser.post("/account/device/", {"code": "000000"}).content.decode()
    done = browser.post("/account/device/", {"code": pyotp.TOTP(secret).at(START)}).content.decode()
    assert len(re.findall(r"\b(?:[0-9a-f]{5}-){3}[0-9a-f]{5}\b", done)) == 10
    assert secret not in SecondFactor.objects.get(user=people.owner).sealed_secret
    assert secret not in browser.get("/account/").content.decode()


# -- sessions


def test_sessions_are_listed_and_one_that_is_ended_is_over_at_once(people):
    here, there = Client(), Client()
    sign_in(here)
    sign_in(there, address="198.51.100.7")
    shown = here.get("/account/").content.decode()
    assert "198.51.100.7" in shown
    other = SignInSession.objects.get(address="198.51.100.7")
    here.post(f"/account/sessions/{other.pk}/end/")
    assert (is_signed_in(here), is_signed_in(there)) == (True, False)


def test_nobody_ends_the_session_of_another(people):
    sign_in(Client())
    session = SignInSession.objects.get(user=people.owner)
    for user in (people.teammate, people.stranger):
        other = Client()
        other.force_login(user)
        assert other.post(f"/account/sessions/{session.pk}/end/").status_code == 404


def test_a_session_gets_another_id_when_its_owner_may_do_something_else(people, as_user):
    browser = Client()
    sign_in(browser, name="teammate")
    before = browser.cookies["tokenyard_session"].value
    browser.get("/account/")
    assert browser.cookies["tokenyard_session"].value == before
    member = Membership.objects.get(user=people.teammate)
    change_role(actor=actor_of(people.owner), membership=member, role="viewer", now=START)
    browser.get("/account/")
    assert browser.cookies["tokenyard_session"].value != before
    assert is_signed_in(browser)


def test_a_role_that_is_taken_away_counts_with_the_next_request(people):
    browser = Client()
    sign_in(browser, name="teammate")
    path = f"/tenants/{people.tenant.pk}/keys/"
    assert browser.post(path, {"name": "k", "lifetime_s": ""}).status_code == 200
    member = Membership.objects.get(user=people.teammate)
    change_role(actor=actor_of(people.owner), membership=member, role="viewer", now=START)
    assert browser.post(path, {"name": "k", "lifetime_s": ""}).status_code == 403
    member.delete()
    assert browser.get(path).status_code in {403, 404}


def test_a_dangerous_act_asks_again_after_a_while(people, clock):
    browser = Client()
    sign_in(browser)
    path = f"/tenants/{people.tenant.pk}/invitations/"
    new = {"email": "guest@example.org", "role": "viewer"}
    clock.shift(1000)
    asked = browser.post(path, new, headers={"Referer": f"http://testserver/tenants/{people.tenant.pk}/members/"})
    assert asked["Location"].startswith("/account/confirm/?next=%2Ftenants%2F")
    assert not Invitation.objects.exists()
    assert browser.post("/account/confirm/", {"password": "wrong", "next": "/"}).status_code == 200
    assert browser.post(path, new).status_code == 302
    assert browser.post("/account/confirm/", {"password": PASSWORD, "next": "/"})["Location"] == "/"
    assert browser.post(path, new).status_code == 200


def test_a_dangerous_call_from_a_browser_asks_again_and_one_with_a_token_does_not(people, clock):
    browser = Client()
    sign_in(browser)
    path, new = f"/api/v1/tenants/{people.tenant.pk}/invitations/", {"email": "guest@example.org", "role": "viewer"}
    _, token = create_service_token(actor=actor_of(people.owner), owner=people.owner, name="ci", now=START)
    clock.shift(1000)
    assert browser.get(path).status_code == 200
    refused = browser.post(path, new, content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (403, "confirm_first")
    bearer = {"Authorization": f"Bearer {token}"}
    assert Client().post(path, new, content_type="application/json", headers=bearer).status_code == 201


# -- letters


def link_in(letter):
    return re.search(r"http\S+", letter.body)[0].split("/", 3)[3]


@pytest.fixture
def letters(django_capture_on_commit_callbacks):
    """Runs what waits for the commit, and gives the letters sent by it."""
    return lambda: django_capture_on_commit_callbacks(execute=True)


def test_an_invitation_is_mailed_and_makes_a_member_once(people, letters):
    with letters():
        invite(actor=actor_of(people.owner), tenant=people.tenant, email="guest@x.org", role="developer", now=START)
    path = "/" + link_in(mail.outbox[0])
    guest = Client()
    with time_machine.travel(START):
        assert "Join gold" in guest.get(path).content.decode()
        joined = guest.post(path, {"username": "guest", "password": PASSWORD})
        assert joined["Location"] == f"/tenants/{people.tenant.pk}/home/"
        assert Client().get(path).status_code == 404
    member = Membership.objects.get(user__username="guest")
    assert (member.role, member.user.email) == ("developer", "guest@x.org")


def test_an_invitation_ends_by_time_by_withdrawal_and_by_a_newer_one(people, as_user):
    owner = actor_of(people.owner)
    _, first_link = invite(actor=owner, tenant=people.tenant, email="g@x.org", role="viewer", now=START)
    second, second_link = invite(actor=owner, tenant=people.tenant, email="g@x.org", role="viewer", now=START)
    paths = ["/" + link.split("/", 3)[3] for link in (first_link, second_link)]
    with time_machine.travel(START):
        assert [Client().get(path).status_code for path in paths] == [404, 200]
        api = f"/api/v1/tenants/{people.tenant.pk}/invitations/{second.pk}/"
        assert as_user(people.stranger).delete(api).status_code == 404
        assert as_user(people.teammate).delete(api).status_code == 403
        assert as_user(people.owner).delete(api).status_code == 204
        assert Client().get(paths[1]).status_code == 404
    _, third = invite(actor=owner, tenant=people.tenant, email="g@x.org", role="viewer", now=START)
    with time_machine.travel(datetime(2026, 12, 7, tzinfo=UTC)):
        assert Client().get("/" + third.split("/", 3)[3]).status_code == 404


def test_a_forgotten_password_is_replaced_once_and_signs_out_everywhere(people, letters):
    User.objects.filter(pk=people.owner.pk).update(email="owner@example.org")
    browser = Client()
    sign_in(browser)
    with letters():
        Client().post("/sign-in/reset/", {"name": "owner@example.org"})
    path = "/" + link_in(mail.outbox[0])
    assert "password is too" in Client().post(path, {"password": "short"}).content.decode().lower()
    assert Client().post(path, {"password": "another long password"}).status_code == 302
    assert Client().post(path, {"password": "yet another password"}).status_code == 404
    assert not is_signed_in(browser)
    assert sign_in(Client(), password="another long password").status_code == 302


@pytest.mark.parametrize(
    "change", [partial(change_password, password="another one"), partial(change_access, email="b@x.org")]
)
def test_a_letter_for_a_new_password_is_void_once_the_password_or_the_address_is_another(change, people, letters):
    User.objects.filter(pk=people.owner.pk).update(email="owner@example.org")
    with letters():
        Client().post("/sign-in/reset/", {"name": "owner"})
    path = "/" + link_in(mail.outbox[0])
    assert Client().get(path).status_code == 200
    change(actor=SYSTEM, user=people.owner, now=START)
    assert Client().post(path, {"password": "whoever has the letter"}).status_code == 404


def test_asking_for_a_new_password_tells_nothing_of_who_there_is(people, letters):
    User.objects.filter(pk=people.owner.pk).update(email="owner@example.org")
    with letters():
        answers = [Client().post("/sign-in/reset/", {"name": name}).content for name in ("owner", "nobody")]
    assert re.sub(rb'value="\w{64}"', b"", answers[0]) == re.sub(rb'value="\w{64}"', b"", answers[1])
    assert len(mail.outbox) == 1


def test_letters_to_one_account_are_few(people, clock):
    answers = [Client().post("/sign-in/reset/", {"name": "owner"}) for _ in range(4)]
    assert "Too many attempts" in answers[-1].content.decode()
    assert ([answer.status_code for answer in answers], "Retry-After" in answers[-1]) == ([200, 200, 200, 429], True)


def test_no_secret_of_signing_in_reaches_the_audit_trail(people, device):
    _, codes = device
    browser = Client()
    sign_in(browser)
    browser.post("/sign-in/code/", {"code": codes[0]})
    browser.post("/account/tokens/", {"name": "ci", "scopes": ["self"], "lifetime_s": ""})
    written = str(list(AuditEntry.objects.values()))
    assert "user.signed_in" in written
    assert [secret for secret in (PASSWORD, codes[0], device[0].secret) if secret in written] == []

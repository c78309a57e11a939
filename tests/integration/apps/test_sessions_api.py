"""Browsers are signed out over REST: one's own, or anybody's by a platform admin."""

import pytest
from django.test import Client
from rest_framework.test import APIClient

from apps.identity.models import SignInSession
from apps.identity.services.second_factor import begin_enrolment
from tests.factories.yard import make_yard

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


@pytest.fixture
def people():
    return make_yard().people


def signed_in(person, kind=Client):
    client = kind()
    client.force_login(person)
    return client


def is_signed_in(client):
    return client.get("/account/").status_code == 200


def session_of(person):
    return SignInSession.objects.filter(user=person, ended_at=None).latest("id")


def test_each_sees_and_ends_only_its_own_sessions(people):
    victim = signed_in(people.owner)
    theirs = session_of(people.owner)
    other = signed_in(people.teammate, APIClient)
    assert str(theirs.pk) not in other.get("/api/v1/sessions/").content.decode()
    assert other.delete(f"/api/v1/sessions/{theirs.pk}/").status_code == 404
    assert is_signed_in(victim)


def test_a_session_that_is_ended_is_over_with_its_next_request(people):
    lost, here = signed_in(people.owner), None
    lost_id = session_of(people.owner).pk
    here = signed_in(people.owner, APIClient)
    assert here.delete(f"/api/v1/sessions/{lost_id}/").status_code == 204
    assert (is_signed_in(lost), is_signed_in(here)) == (False, True)


def test_all_others_are_ended_and_the_one_that_asks_is_not(people):
    others = [signed_in(people.owner) for _ in range(2)]
    here = signed_in(people.owner, APIClient)
    assert here.delete("/api/v1/sessions/").status_code == 204
    assert [is_signed_in(each) for each in [*others, here]] == [False, False, True]


@pytest.mark.parametrize(("actor", "status"), [("platform_admin", 204), ("operator", 403), ("owner", 403)])
def test_a_platform_admin_signs_anybody_out(people, actor, status):
    victim = signed_in(people.viewer)
    answer = signed_in(getattr(people, actor), APIClient).delete(f"/api/v1/users/{people.viewer.pk}/sessions/")
    assert (answer.status_code, is_signed_in(victim)) == (status, status != 204)


def test_a_platform_admin_removes_a_lost_device(people, settings):
    begin_enrolment(user=people.viewer, now=people.viewer.date_joined)
    admin = signed_in(people.platform_admin, APIClient)
    assert admin.delete(f"/api/v1/users/{people.viewer.pk}/second-factor/").status_code == 204
    assert not hasattr(type(people.viewer).objects.get(pk=people.viewer.pk), "second_factor")

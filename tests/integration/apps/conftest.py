"""Imports of the domain stand in the fixtures: pytest may read this file before Django is set up."""

import pytest


@pytest.fixture(autouse=True)
def _valkey(valkey):
    """Services wake loops and pages through it."""


@pytest.fixture
def people(db):
    from tests.factories.domain import make_people  # noqa: PLC0415

    return make_people()


@pytest.fixture
def as_user():
    """A REST client signed in as someone."""
    from rest_framework.test import APIClient  # noqa: PLC0415

    def signed_in(user):
        client = APIClient()
        client.force_login(user)
        return client

    return signed_in

"""Imports of the domain stand in the fixtures: pytest may read this file before Django is set up."""

import pytest


@pytest.fixture
def yard(db, valkey):
    from tests.factories.yard import make_yard  # noqa: PLC0415

    return make_yard()


@pytest.fixture
def open_as(yard):
    """A browser of the person whose field in People is named, or of nobody."""
    from django.test import Client  # noqa: PLC0415

    def client_of(who):
        client = Client()
        if who != "nobody":
            client.force_login(getattr(yard.people, who))
        return client

    return client_of

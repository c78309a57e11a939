"""Fixtures of every kind of test. Imported before Django's settings are read, which take the addresses from here.

`postgres` and `valkey` start the real services once per run, when a test first asks; a test that uses the database
(pytest-django's `db`, `transactional_db`) asks by that.
"""

import os
from collections.abc import Iterator

import hypothesis
import pytest

from workers.compiled.finder import SWITCH, prefer_compiled
from workers.contracts.cache import find_cache

if os.environ.get(SWITCH) == "on":  # the same tests, of the modules that users run where there is a compiler
    assert prefer_compiled(find_cache(os.environ), os.environ), "run `python -m workers.compiled` first"

from deploy.local.postgres import Postgres
from deploy.local.valkey import Valkey
from tests.support.services import Services

hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")  # one that is busy has no bug
_services = Services()
_services.export()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.test")


def pytest_configure() -> None:
    """Loads the settings, which pytest-django would do from pyproject.toml before the lines above."""
    from django.conf import settings  # noqa: PLC0415 - not before the environment is set

    settings.DATABASES  # noqa: B018


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with _services.running_postgres() as running:
        yield running


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    with _services.running_valkey() as running:
        yield running


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres: Postgres) -> None:
    """pytest-django calls it before it makes the test database."""

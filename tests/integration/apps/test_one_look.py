"""Very many rows are read as they were at one moment, and nothing is put aside for it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from apps.common.one_look import in_one_look
from apps.common.rows import every_tenant
from apps.tenants.models import Tenant
from tests.factories.domain import make_tenant

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]

NAMES = ["a", "b", "c", "d", "e"]


@pytest.fixture
def names():
    with every_tenant():
        for name in NAMES:
            make_tenant(name)
        yield in_one_look(Tenant.objects.order_by("name").values_list("name", flat=True), chunk_rows=2)


def test_the_cursor_is_the_transactions_and_ends_with_it(names):
    assert next(names) == "a"
    assert cursors() == [(False,)]
    assert list(names) == NAMES[1:]
    assert cursors() == []
    assert connection.get_autocommit()


def cursors():
    with connection.cursor() as cursor:
        cursor.execute("SELECT is_holdable FROM pg_cursors WHERE name LIKE '_django_curs%'")
        return cursor.fetchall()


def test_what_is_added_meanwhile_is_not_among_them(names):
    first = next(names)
    with ThreadPoolExecutor(1) as elsewhere:
        elsewhere.submit(add_another).result(30)
    assert [first, *names] == NAMES
    assert Tenant.objects.filter(name="cc").exists()


def add_another():
    try:
        with every_tenant():
            make_tenant("cc")
    finally:
        connection.close()


def test_who_stops_reading_leaves_no_transaction(names):
    next(names)
    names.close()
    assert connection.get_autocommit()
    assert cursors() == []

"""Requests of tests as the role that web has, on the test's own connection."""

from django.conf import settings
from django.db import connection


def as_web_role(get_response):
    def middleware(request):
        if not _has_database():
            return get_response(request)
        with web_role():
            return get_response(request)

    return middleware


class web_role:  # noqa: N801 - read like a function
    def __enter__(self):
        with connection.cursor() as cursor:
            cursor.execute(f"SET ROLE {settings.WEB_DATABASE_ROLE}")

    def __exit__(self, *_):
        if not connection.needs_rollback:
            with connection.cursor() as cursor:
                cursor.execute("RESET ROLE")


def _has_database():
    """Not where the test runs without one, or the request is served by another process."""
    return connection.in_atomic_block or connection.settings_dict["NAME"].startswith("test_")

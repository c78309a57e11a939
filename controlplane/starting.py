"""A process that cannot start for a setting says so in one line, which a traceback would hide."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import ImproperlyConfigured


@contextmanager
def said_plainly() -> Iterator[None]:
    try:
        yield
    except ImproperlyConfigured as error:
        raise SystemExit(f"Tokenyard does not start: {error}") from None

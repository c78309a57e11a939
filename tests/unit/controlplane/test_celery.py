import kombu.connection
import pytest

from controlplane.celery import app

pytestmark = pytest.mark.unit


def test_a_broker_that_is_back_is_found_within_a_second(monkeypatch):
    waits = []

    def connects(_connect, _errors, _args, _kwargs, _on_error, _retries, start, step, most, *_more, **_also):
        waits.append((start, step, most))

    monkeypatch.setattr(kombu.connection, "retry_over_time", connects)
    app.connection_for_read("redis://127.0.0.1:1").ensure_connection(None, 3)
    ((start, step, most),) = waits
    assert max(start, step, most) <= 1

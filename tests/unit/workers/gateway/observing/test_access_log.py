import json

import pytest

from tests.factories.usage import make_record
from workers.gateway.observing.access_log import AccessLog

pytestmark = pytest.mark.unit


def test_a_request_is_one_line_that_says_who_what_and_how_long():
    lines = []
    AccessLog(lines.append).observe(make_record(request_id="a\nb", tenant_id="t1", public_model="m", status=429))
    [line] = lines
    assert line.count("\n") == 1
    entry = json.loads(line)
    assert (entry["request_id"], entry["tenant_id"], entry["public_model"], entry["status"]) == ("a\nb", "t1", "m", 429)
    assert {"queue_ms", "ttft_ms", "total_ms"} <= set(entry)


def test_what_clients_say_of_themselves_stays_out():
    lines = []
    AccessLog(lines.append).observe(make_record(end_user="jane@example.org", tags={"secret": "project"}))
    assert "jane" not in lines[0]
    assert "project" not in lines[0]

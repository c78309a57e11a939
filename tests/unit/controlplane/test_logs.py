import json
import logging

import pytest
from django.core.exceptions import PermissionDenied
from django.test import RequestFactory

from controlplane.logs import LineFormatter, RedactSecrets
from workers.contracts.log_lines import LineFormatter as NodeLineFormatter
from workers.contracts.log_lines import without_secrets

pytestmark = pytest.mark.unit

SECRET = "s3cr3tvalue"


@pytest.mark.parametrize(
    "text",
    [
        f"key ty-abcd1234-{SECRET} refused",
        f"token tys-abcd1234-{SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"connecting to redis://:{SECRET}@127.0.0.1:6379/0",
        f"postgresql://user:{SECRET}@host/db",
        f"redis://:a@b/,{SECRET}@host/0",
        f'{{"password": "{SECRET}"}}',
    ],
)
def test_a_secret_does_not_reach_the_log(text):
    assert SECRET not in without_secrets(text)


@pytest.mark.parametrize(
    "line",
    [
        "generation 3 active on node-1 with 120 output_tokens",
        "no link to http://127.0.0.1:8000/agents/link: refused",
        "http://[::1]:8000/ does not answer",
    ],
)
def test_what_is_no_secret_stays(line):
    assert without_secrets(line) == line


@pytest.mark.parametrize("odd", ["\x1b[2J", "\x9b2J", "a\x85b", "a\u2028b", "\u202eab", "\x00"])
def test_what_a_terminal_would_obey_is_written_as_its_number(odd):
    line = NodeLineFormatter().format(record("request failed", request_id=odd))
    assert line.isprintable()
    assert json.loads(line.partition("request_id=")[2]) == odd


def record(message, *args, **extra):
    made = logging.makeLogRecord({"name": "apps.x", "levelname": "INFO", "msg": message, "args": args})
    vars(made).update(extra)
    return made


def test_a_line_names_time_level_logger_event_and_fields():
    line = LineFormatter().format(record("a thing happened", node_id="n1"))
    assert "level=info logger=apps.x" in line
    assert line.endswith('event="a thing happened" node_id=n1')


def test_a_nodes_line_has_the_same_shape_and_says_of_which_request_it_is():
    line = NodeLineFormatter().format(record("request failed", request_id="r 1"))
    assert line.endswith('logger=apps.x event="request failed" request_id="r 1"')


def test_secrets_in_arguments_and_in_fields_are_taken_out():
    made = record("key %s", f"ty-abcd1234-{SECRET}", error=f"redis://:{SECRET}@host")
    assert RedactSecrets().filter(made)
    assert SECRET not in LineFormatter().format(made)


def test_what_an_address_asks_with_stays_out_of_the_log():
    request = RequestFactory().get("/sign-in/provider/return/", {"code": SECRET, "state": SECRET})
    made = record("Bad Gateway: /sign-in/provider/return/", request=request)
    assert RedactSecrets().filter(made)
    line = LineFormatter().format(made)
    assert line.endswith('request="GET /sign-in/provider/return/"')
    assert SECRET not in line


def test_a_refused_request_is_one_line_and_one_that_broke_shows_where():
    error = PermissionDenied()
    told = {"name": "django.request", "exc_info": (type(error), error, None)}
    refused = record("Forbidden: /users/", **told, levelname="WARNING", levelno=logging.WARNING)
    broken = record("Internal Server Error: /users/", **told, levelname="ERROR", levelno=logging.ERROR)
    assert "\n" not in LineFormatter().format(refused)
    assert "PermissionDenied" in LineFormatter().format(broken)

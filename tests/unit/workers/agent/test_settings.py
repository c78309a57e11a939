from pathlib import Path

import pytest

from workers.agent.settings import SettingsError, read_settings

pytestmark = pytest.mark.unit

GOOD = {
    "TOKENYARD_NODE_ID": "n",
    "TOKENYARD_AGENT_TOKEN": "t",
    "TOKENYARD_CONTROL_URL": "ws://127.0.0.1:8000/ws/agent/",
    "TOKENYARD_NODE_DIR": "/var/node",
}


def test_a_broker_is_not_needed():
    settings = read_settings(GOOD)
    assert (settings.node_directory, settings.broker_url, settings.stops_engines) == (Path("/var/node"), None, False)


def test_engines_end_with_the_agent_only_when_that_is_asked_for():
    assert read_settings(GOOD | {"TOKENYARD_AGENT_STOP_ENGINES": "1"}).stops_engines


def test_how_long_an_engine_may_finish_what_it_has_is_ten_minutes_or_what_was_said():
    assert read_settings(GOOD).drain_limit_s == 600
    assert read_settings(GOOD | {"TOKENYARD_AGENT_DRAIN_LIMIT_S": "7200"}).drain_limit_s == 7200


@pytest.mark.parametrize("name", GOOD)
def test_a_missing_variable_is_named(name):
    with pytest.raises(SettingsError, match=name):
        read_settings({key: value for key, value in GOOD.items() if key != name})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENYARD_CONTROL_URL", "http://x"),
        ("TOKENYARD_AGENT_STOP_ENGINES", "perhaps"),
        ("TOKENYARD_AGENT_DRAIN_LIMIT_S", "long"),
        ("TOKENYARD_AGENT_DRAIN_LIMIT_S", "-1"),
        ("TOKENYARD_AGENT_DRAIN_LIMIT_S", "nan"),
    ],
)
def test_a_bad_value_is_refused_at_the_start(name, value):
    with pytest.raises(SettingsError, match=name):
        read_settings(GOOD | {name: value})

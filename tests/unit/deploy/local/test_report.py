from pathlib import Path

import pytest

from deploy.local.configuration import read_configuration
from deploy.local.report import demo_content, duration, status_table, summary
from deploy.local.seed import Seed, SeededTenant
from deploy.local.state import ProcessState, StackState

pytestmark = pytest.mark.unit

SEED = Seed(
    node_id="n",
    agent_token="secret-agent-token",
    model="demo-chat",
    logins=[{"username": "admin", "password": "pw", "role": "operator"}],
    tenants={"gold": SeededTenant(api_key="ty-gold-1"), "batch": SeededTenant(api_key="ty-batch-1")},
)


def demo():
    return demo_content(read_configuration({}, root=Path("/p")), SEED, engine="fake")


def test_the_demo_file_has_what_a_program_needs():
    content = demo()
    assert content["console_url"] == "http://127.0.0.1:8000"
    assert content["gateway_url"] == "http://127.0.0.1:8080"
    assert content["tenants"]["batch"]["api_key"] == "ty-batch-1"
    assert content["model"] == "demo-chat"
    assert content["logins"] == SEED.logins


def test_the_agents_token_is_shown_to_nobody():
    assert "secret-agent-token" not in summary(demo()) + str(demo())


def test_the_summary_can_be_copied_as_it_is():
    text = summary(demo())
    assert 'api_key="ty-gold-1"' in text
    assert '-H "Authorization: Bearer ty-gold-1"' in text
    assert "http://127.0.0.1:8080/v1/chat/completions" in text


def test_the_status_table_says_unknown_where_nothing_runs():
    state = StackState(
        phase="ready",
        started_at=0.0,
        supervisor_pid=1,
        supervisor_start_ticks=1,
        processes=[
            ProcessState(name="web", state="ready", pid=42, started_at=100.0, restarts=0),
            ProcessState(name="agent", state="waiting", pid=None, started_at=100.0, restarts=3),
        ],
    )
    lines = status_table(state, now=190.0, urls=["console: http://c"]).splitlines()
    assert lines[1].split() == ["web", "42", "ready", "1", "min", "30", "s", "0"]
    assert lines[2].split() == ["agent", "–", "waiting", "–", "3"]
    assert lines[-1] == "console: http://c"


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (59.9, "59 s"), (60, "1 min 0 s"), (3700, "1 h 1 min"), (90000, "1 d 1 h")]
)
def test_a_duration_reads_well(seconds, text):
    assert duration(seconds) == text

"""The policy lab: asked for on a page, played in the background, read side by side."""

import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command

from apps.common.actors import SYSTEM
from apps.routing.models import PolicyRun
from apps.routing.services import experiments
from apps.routing.services.experiments import request_run, run_next
from apps.routing.tasks import run_experiments
from tests.factories.usage import ingest_records, make_record
from workers.simulator.experiments import Experiment

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

TRACES = Path(__file__).parents[3] / "data" / "traces"
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def traces(monkeypatch):
    monkeypatch.setenv("TOKENYARD_TRACES", str(TRACES))


def values(**changed):
    return {
        "trace": "W1", "policies": ["tokenyard", "round-robin"], "replicas": 2,
        "engine": "llama3-8b/h100/tp1", "load": 0.5, "duration_s": 20,
        "ttft_slo_s": 2, "tpot_slo_ms": 150, "in_slo_wanted": "", **changed,
    }  # fmt: skip


def ask(browser, **changed):
    response = browser.post("/lab/", values(**changed))
    assert response.status_code == 302, response.context["form"].errors
    return response.headers["Location"]


def test_a_run_waits_then_shows_policies_side_by_side(open_as):
    browser = open_as("operator")
    address = ask(browser, in_slo_wanted=0.9)
    waiting = browser.get(address).content.decode()
    assert "waits for its turn" in waiting
    assert 'hx-trigger="every 2s"' in waiting
    run_experiments()
    done = browser.get(address).content.decode()
    assert "hx-trigger" not in done
    assert "round-robin" in done
    assert "<strong>" in done
    assert "queued" not in browser.get("/lab/").content.decode()


def test_usage_records_of_a_past_day_are_replayed(open_as, yard):

    yesterday = (NOW - timedelta(days=1)).timestamp()
    records = [
        make_record(
            tenant_id=str(yard.people.tenant.pk),
            arrived_at=yesterday + number,
            input_tokens=2560,
            cached_input_tokens=1280 if number else 0,
        )
        for number in range(30)
    ]
    ingest_records(records=records, node_id=yard.node.pk, now=NOW)
    browser = open_as("operator")
    address = ask(browser, trace="usage", day="2026-11-28", duration_s="")
    run_experiments()

    run = PolicyRun.objects.get(pk=UUID(address.rstrip("/").rsplit("/", 1)[1]))
    assert run.state == "done"
    assert [summary["requests"] for summary in run.summaries] == [30, 30]
    assert run.summaries[0]["scores"]["hit_rate"] > 0.4
    of_tenant = browser.get(address).context["tenants"]
    assert [each["name"] for each in of_tenant] == [yard.people.tenant.name]


OWN_TRACE = b"t_s,in,out\n" + b"".join(b"%d,600,20\n" % second for second in range(30))
OWN_LINES = b"".join(b'{"t_s": %d, "in": 1200, "out": 20, "h": [1, 2]}\n' % second for second in range(30))


@pytest.mark.parametrize("content", [OWN_TRACE, OWN_LINES, gzip.compress(OWN_TRACE), gzip.compress(OWN_LINES)])
def test_a_trace_of_ones_own_is_played_and_not_kept_afterwards(open_as, content):
    address = ask(open_as("operator"), trace="upload", recording=SimpleUploadedFile("mine", content), duration_s="")
    run_experiments()

    run = PolicyRun.objects.get(pk=UUID(address.rstrip("/").rsplit("/", 1)[1]))
    assert (run.state, run.error, run.recording) == ("done", "", None)
    assert [summary["requests"] for summary in run.summaries] == [30, 30]


@pytest.mark.parametrize(
    "content",
    [b"", b"\x1f\x8bno", b"\xff\xfe\x00", b"a,b\n1,2\n", b"t_s,in,out\n1,many,2\n", b"t_s,in,out\nnan,1,2\n",
     b"t_s,in,out\n1,-5,2\n", b"{}\n", b"{", b"t_s,in,out\n", gzip.compress(b"0" * (65 << 20)), b"0" * (9 << 20)],
)  # fmt: skip
def test_a_file_that_is_no_trace_is_refused_beside_the_field(open_as, content):
    sent = values(trace="upload", recording=SimpleUploadedFile("mine.csv", content))
    response = open_as("operator").post("/lab/", sent)
    assert response.status_code == 422
    assert response.context["form"].errors["recording"]
    assert not PolicyRun.objects.exists()


@pytest.mark.parametrize(
    "changed",
    [
        {"trace": "upload"}, {"replicas": 0}, {"replicas": "many"},
        {"trace": "W9"}, {"policies": []}, {"policies": ["magic"]},
        {"engine": "../../etc/passwd"}, {"load": -1}, {"load": "nan"}, {"load": "1e999"}, {"duration_s": 0},
        {"others": "two h100"}, {"others": "2xllama3-8b/none/tp1"}, {"others": "9999xllama3-8b/h100/tp1"},
        {"trace": "usage"}, {"trace": "usage", "day": "someday"}, {"trace": "usage", "day": "1999-01-01"},
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_refused_beside_the_field(open_as, changed):

    response = open_as("operator").post("/lab/", values(**changed))
    assert response.status_code == 422
    assert response.context["form"].errors
    assert not PolicyRun.objects.exists()


@pytest.mark.parametrize(("who", "status"), [("operator", 200), ("owner", 403), ("teammate", 403), ("stranger", 403)])
def test_it_is_the_operators(open_as, who, status):
    assert open_as(who).get("/lab/").status_code == status


def test_a_run_that_nobody_knows_is_not_found(open_as):
    assert open_as("operator").get(f"/lab/{uuid4()}/").status_code == 404


def test_one_run_at_a_time_and_a_lost_one_is_given_up(yard):

    first = request_run(actor=SYSTEM, experiment=Experiment(trace="W1", duration_s=5.0, load=0.2), now=NOW)
    second = request_run(
        actor=SYSTEM, experiment=Experiment(trace="W1", duration_s=5.0, load=0.2), now=NOW + timedelta(seconds=1)
    )
    PolicyRun.objects.filter(pk=first.pk).update(state="running", touched_at=NOW)
    assert run_next(clock=lambda: NOW + timedelta(seconds=30)) is None
    assert run_next(clock=lambda: NOW + timedelta(minutes=10)) == second
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, second.state) == ("failed", "done")


def test_runs_are_bounded(yard, monkeypatch):

    monkeypatch.setattr(experiments, "KEPT_RUNS", 3)
    for number in range(5):
        experiments.request_run(actor=SYSTEM, experiment=Experiment(trace="W1"), now=NOW + timedelta(seconds=number))
    assert PolicyRun.objects.count() == 3


def test_manage_py_simulate_prints_a_row_per_policy(capsys, tmp_path):

    file = tmp_path / "out.json"
    call_command(
        "simulate", "--trace", "W1", "--policy", "tokenyard", "--policy", "kv-cost", "--fleet", "2xllama3-8b/h100/tp1",
        "--duration", "10", "--load", "0.4", "--json", str(file),
    )  # fmt: skip
    rows = capsys.readouterr().out.strip().splitlines()
    assert [row.split(" | ")[0] for row in rows[1:]] == ["| tokenyard", "| kv-cost"]
    assert file.read_text().count('"policy"') == 2
    nowhere = ["--trace", "W1", "--json", str(tmp_path / "none" / "out.json")]
    for wrong in (["--trace", "W9"], ["--trace", "W1", "--fleet", "lots"], ["--trace", "usage:never"], nowhere):
        with pytest.raises(CommandError):
            call_command("simulate", *wrong)

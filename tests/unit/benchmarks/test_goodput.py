import sys

import msgspec
import pytest

from benchmarks import goodput

pytestmark = pytest.mark.unit

PROMISED = [
    "workload", "load", "policy", "value", "in_slo", "goodput_per_s", "ttft_p50_s", "ttft_p99_s", "tpot_p50_ms",
    "hit_rate", "refused", "wasted", "class_shares", "jain", "usd_per_1000_in_time", "simulated_per_s",
]  # fmt: skip


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["goodput.py", *arguments])
    goodput.main()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--traces", "/nowhere"], "there are no traces in /nowhere"),
        (["--policies", "guesswork"], "There is no policy 'guesswork'"),
        (["--policies", "tokenyard/guess:1"], "There is no policy"),
        (["--seeds", "one"], "--seeds are whole numbers"),
        (["--load", "0"], "--load is more than 0"),
        (["--begin", "1"], "--begin is a share"),
        (["--json", "/nowhere/rows.json"], "there is no folder /nowhere"),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_reason(monkeypatch, capsys, tmp_path, arguments, complaint):
    if "--traces" not in arguments:
        arguments = [*arguments, "--traces", str(tmp_path)]
    with pytest.raises(SystemExit) as exit_info:
        run(monkeypatch, *arguments)
    assert exit_info.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_row_has_each_figure_by_its_name():
    assert list(goodput.Row.__struct_fields__) == PROMISED


def test_ours_may_be_named_with_other_constants():
    assert goodput.what_is_wrong_with(["tokenyard/is_fair:0/fill:0.8", "kv-cost+32+sjf"]) == ""


def test_a_table_has_rows_of_their_own_loads_and_says_how_far_it_is(monkeypatch, capsys, tmp_path):
    rows = iter([0.5, 0.25])

    def measure(_lab, workload, load, policy, _seeds):
        figures = dict.fromkeys(PROMISED[3:], next(rows)) | {"class_shares": {"all": 1.0}}
        return goodput.Row(workload=workload, load=load, policy=policy, **figures)

    monkeypatch.setattr(goodput, "measure", measure)
    monkeypatch.setattr(goodput, "Lab", lambda *_: None)
    run(monkeypatch, "--workload", "W2", "--half", "--policies", "tokenyard", "--traces", str(tmp_path),
        "--json", str(tmp_path / "rows.json"))  # fmt: skip
    written = msgspec.json.decode((tmp_path / "rows.json").read_bytes())
    assert [(row["workload"], row["load"], row["value"]) for row in written] == [("W2", 1.5, 0.5), ("W2", 2.25, 0.25)]
    said = capsys.readouterr()
    assert said.out.splitlines()[0].split(" | ")[3] == "value"
    assert "row 2 of 2 after" in said.err

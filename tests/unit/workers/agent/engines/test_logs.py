import os

import pytest

from workers.agent.engines import logs as engine_logs
from workers.agent.engines.logs import EngineLogs, telling_line

pytestmark = pytest.mark.unit

MOST = 1000


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setattr(engine_logs, "_MAX_LOG_BYTES", MOST)
    monkeypatch.setattr(engine_logs, "_TAIL_BYTES", 100)
    return EngineLogs(tmp_path)


def said(tmp_path, replica_id="r1", before=""):
    return (tmp_path / f"engine-{replica_id}.log{before}").read_bytes()


def names(tmp_path):
    return sorted(each.name for each in tmp_path.iterdir())


def test_a_log_that_is_written_to_is_cut_and_goes_on_with_the_next_line(logs, tmp_path):
    with logs.open("r1") as engine:
        engine.write(b"a" * 5000 + b"\nlast\n")
        engine.flush()
        logs.bound({"r1"})
        engine.write(b"next\n")
        engine.flush()
    assert len(said(tmp_path)) < MOST
    assert logs.tail("r1", 2) == ["last", "next"]
    assert len(said(tmp_path, before=".1")) == MOST
    assert said(tmp_path, before=".1").endswith(b"a\nlast\n")


def test_one_that_is_short_is_left_alone(logs, tmp_path):
    with logs.open("r1") as engine:
        engine.write(b"a" * MOST)
    logs.bound({"r1"})
    assert names(tmp_path) == ["engine-r1.log"]


def test_where_there_is_no_room_to_put_it_aside_it_is_cut_all_the_same(logs, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(engine_logs.shutil, "copyfileobj", full)
    with logs.open("r1") as engine:
        engine.write(b"a" * 5000)
    logs.bound({"r1"})
    assert said(tmp_path) == b"a" * 100
    assert names(tmp_path) == ["engine-r1.log"]


def test_of_replicas_that_are_gone_the_last_few_are_kept_and_of_others_files_all(logs, tmp_path, monkeypatch):
    monkeypatch.setattr(engine_logs, "_MOST_LOGS_OF_OTHERS", 2)
    for number in range(5):
        for end in (".log", ".log.1"):
            path = tmp_path / f"engine-r{number}{end}"
            path.write_bytes(b"x")
            os.utime(path, (number, number))
    (tmp_path / "gateway.log").write_bytes(b"x")
    logs.bound({"r0"})
    kept = ["r0", "r3", "r4"]
    assert names(tmp_path) == [*(f"engine-{r}.log{end}" for r in kept for end in ("", ".1")), "gateway.log"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], ""),
        (["loading", "done", ""], "done"),
        (["torch.OutOfMemoryError: CUDA out of memory", "INFO leaving"], "torch.OutOfMemoryError: CUDA out of memory"),
        (
            ["ValueError: no such dtype", "RuntimeError: Engine core failed. See root cause above."],
            "ValueError: no such dtype",
        ),
        (
            [
                "  Value error, max_model_len (512) is greater",
                "  For further information visit https://x/v/value_error",
            ],
            "Value error, max_model_len (512) is greater",
        ),
        (["error_rate=0", "bye"], "bye"),
        (["\x1b[31mFatal\x00 error"], "[31mFatal  error"),
        (["x" * 500], "x" * 200),
        (["OSError: 401 of https://me:pw@hub/m?token=pw"], "OSError: 401 of https://me:***@hub/m?token=***"),
    ],
)
def test_the_line_that_tells_why_is_found(lines, expected):
    assert telling_line(lines) == expected


def test_a_start_is_not_blamed_for_what_the_one_before_said(logs):
    with logs.open("r1") as engine:
        engine.write(b"MemoryError: before\n")
        began_at = engine.tell()
    assert logs.cause("r1", began_at) == ""
    with logs.open("r1") as engine:
        engine.write(b"port taken\n")
    assert logs.cause("r1", began_at) == "port taken"
    assert logs.cause("r1", 10_000) == "MemoryError: before"
    assert logs.cause("another", 0) == ""

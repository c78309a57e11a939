import os
from pathlib import Path

import pytest

from deploy.local import pidfiles
from workers.agent.engines.identity import ProcessIdentity, identify, is_running, send_signal

pytestmark = pytest.mark.unit


def test_this_process_runs():
    assert is_running(identify(os.getpid()))


def test_the_same_pid_with_another_start_time_is_another_process():
    ours = identify(os.getpid())
    impostor = ProcessIdentity(ours.pid, ours.start_ticks + 1)
    assert not is_running(impostor)
    assert send_signal(impostor, 0) is False
    assert send_signal(ours, 0) is True


def test_a_name_that_was_cut_in_the_middle_of_a_letter_hides_no_process():
    name = Path(f"/proc/{os.getpid()}/comm")
    before = name.read_bytes()
    name.write_bytes("тренировка".encode()[:15])
    try:
        assert is_running(identify(os.getpid()))
    finally:
        name.write_bytes(before)


def test_no_process_has_no_identity():
    assert identify(2**22 + 1) is None


def test_what_is_recorded_is_read_back(tmp_path):
    ours = identify(os.getpid())
    pidfiles.record(tmp_path, "web", ours)
    assert dict(pidfiles.recorded(tmp_path)) == {"web": ours}
    pidfiles.erase(tmp_path, "web")
    assert dict(pidfiles.recorded(tmp_path)) == {}


def test_a_file_cut_short_counts_as_none(tmp_path):
    (tmp_path / "web.pid").write_text('{"pid": 1')
    assert dict(pidfiles.recorded(tmp_path)) == {}


def test_a_postmaster_file_that_names_a_stranger_is_not_believed(tmp_path):
    (tmp_path / "postmaster.pid").write_text(f"{os.getpid()}\n{tmp_path}\n")
    assert pidfiles.postmaster(tmp_path) is None


def test_a_file_may_be_read_by_its_owner_only(tmp_path):
    pidfiles.record(tmp_path, "web", identify(os.getpid()))
    assert (tmp_path / "web.pid").stat().st_mode & 0o777 == 0o600

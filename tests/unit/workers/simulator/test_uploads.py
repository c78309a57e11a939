"""Traces that people bring along."""

import gzip

import pytest

from workers.simulator.experiments import Experiment, ExperimentError, name_of_upload, pack_upload, read_through, run

pytestmark = pytest.mark.unit

CSV = b"t_s,in,out\n" + b"".join(b"%d,600,20\n" % second for second in range(10))
LINES = b"".join(b'{"t_s": %d, "in": 1200, "out": 20, "h": [1, 2]}\n' % second for second in range(10))


@pytest.mark.parametrize(("content", "name"), [(CSV, "recording.csv.gz"), (LINES, "recording.jsonl.gz")])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_trace_is_told_by_what_is_in_it_and_played(tmp_path, content, name, pack):
    packed = pack_upload(pack(content))
    assert name_of_upload(packed) == name
    file = tmp_path / name
    file.write_bytes(packed)
    assert read_through(str(file)) == 10
    (summary,) = run(Experiment(trace=str(file), policies=("tokenyard",), replicas=1), lambda *_: None)
    assert summary.answered == 10


@pytest.mark.parametrize("name", ["mine.csv", "mine.csv.gz"])
def test_a_plain_file_is_read_whatever_it_is_called(tmp_path, name):
    file = tmp_path / name
    file.write_bytes(CSV)
    assert read_through(str(file)) == 10


def test_a_file_that_unpacks_to_more_than_is_read_is_refused():
    with pytest.raises(ValueError, match="larger than 64 MiB"):
        pack_upload(gzip.compress(bytes(65 << 20), 1))


def test_a_large_file_is_refused():
    with pytest.raises(ValueError, match="larger than 8 MiB"):
        pack_upload(bytes(9 << 20))


def test_a_damaged_file_is_refused():
    with pytest.raises(ValueError, match="damaged"):
        pack_upload(b"\x1f\x8b and so on")


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe\x00", b"a,b\n1,2\n", b"t_s,in,out\n1,many,2\n", b"t_s,in,out\nnan,1,2\n", b"t_s,in,out\n1,-5,2\n",
     b"t_s,in,out\n1\n", b"t_s,in,out\n1,2," + b"9" * 5000, b"{}\n", b"{"],
)  # fmt: skip
def test_what_is_no_trace_is_said_to_be_none(tmp_path, content):
    packed = pack_upload(content)
    file = tmp_path / name_of_upload(packed)
    file.write_bytes(packed)
    with pytest.raises(ExperimentError, match="cannot be read"):
        read_through(str(file))


def test_a_trace_cut_off_in_the_middle_is_no_trace(tmp_path):
    file = tmp_path / "cut.csv.gz"
    file.write_bytes(gzip.compress(CSV)[:-12])
    with pytest.raises(ExperimentError, match="cannot be read"):
        read_through(str(file))


def test_what_no_engine_could_hold_is_refused_and_the_rest_is_played(tmp_path):
    file = tmp_path / "long.csv"
    file.write_bytes(b"t_s,in,out\n0,100,5\n1,99999999,5\n2,100,99999999\n3,100,5\n")
    (summary,) = run(Experiment(trace=str(file), policies=("tokenyard",), replicas=1), lambda *_: None)
    assert (summary.requests, summary.answered) == (4, 2)

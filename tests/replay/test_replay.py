"""The same events give the same commands, whatever PYTHONHASHSEED."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.replay.recording import SCENES, read, replay
from workers.compiled.finder import SWITCH

pytestmark = pytest.mark.unit

SEEDS = ("0", "1", "4242")
REPLAY = """
import hashlib
from tests.replay.recording import SCENES, read, replay

digest = hashlib.sha256()
for scene in SCENES:
    digest.update(repr([ours for ours, _ in replay(read(scene))]).encode())
print(digest.hexdigest())
"""
ROOT = Path(__file__).parents[2]
PROGRAM = """
import hashlib, os, sys
from pathlib import Path
from workers.compiled.finder import prefer_compiled
from workers.contracts.cache import find_cache
is_compiled = prefer_compiled(find_cache(os.environ), os.environ)
from workers.simulator.lab import Lab

class Recorder:
    def __init__(self, core, digest):
        self._core, self._digest = core, digest
    def __getattr__(self, name):
        method = getattr(self._core, name)
        def call(*args, **kwargs):
            result = method(*args, **kwargs)
            if name != "next_deadline":
                self._digest.update(repr((name, result)).encode())
            return result
        return call

lab = Lab(Path(sys.argv[1]))
digest = hashlib.sha256()
for name, load in (("W1", 1.5), ("W3", 0.8), ("W5", 3.0)):
    workload = lab.workload(name, load, 1, 20.0)
    lab.play(workload, Recorder(lab.core("tokenyard", workload, 1), digest))
print(digest.hexdigest(), is_compiled)
"""


def digest_with(hash_seed, program=PROGRAM, compiled="off"):
    run = subprocess.run(
        [sys.executable, "-c", program, str(ROOT / "tests" / "data" / "traces")],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT), SWITCH: compiled},
        capture_output=True, text=True, check=True, timeout=100,
    )  # fmt: skip
    return run.stdout.split()


def test_replay_is_the_same_under_any_hash_seed():
    digests = [digest_with(seed)[0] for seed in SEEDS]
    assert len(digests[0]) == 64
    assert digests[0] == digests[1] == digests[2]


@pytest.mark.parametrize("scene", SCENES)
def test_a_recorded_log_gives_the_recorded_commands(scene):
    """Fails after any change of policy: `python -m tests.replay.recording` writes the logs anew if it was meant."""
    pairs = replay(read(scene))
    assert len(pairs) > 500
    assert [index for index, (ours, recorded) in enumerate(pairs) if ours != recorded] == []


def test_recorded_logs_replay_alike_under_any_hash_seed():
    digests = [digest_with(seed, REPLAY)[0] for seed in SEEDS]
    assert digests[0] == digests[1] == digests[2]


def test_the_log_of_trouble_holds_every_kind_of_command():
    commands = " ".join(" ".join(ours) for ours, _ in replay(read("faults")))
    assert all(kind in commands for kind in ("Dispatch", "Reject", "Suspect"))


def test_compiled_it_decides_the_same():
    digest, is_compiled = digest_with("0", compiled="on")
    if is_compiled == "False":
        pytest.skip("not compiled here: `python -m workers.compiled` says why")
    assert digest == digest_with("0")[0]

"""The same events give the same commands, whatever PYTHONHASHSEED."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
PROGRAM = """
import hashlib, sys
from pathlib import Path
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
print(digest.hexdigest())
"""


def digest_with(hash_seed):
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT / "tests" / "data" / "traces")],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True, timeout=100,
    )  # fmt: skip
    return run.stdout.strip()


def test_replay_is_the_same_under_any_hash_seed():
    digests = [digest_with(seed) for seed in ("0", "1", "4242")]
    assert len(digests[0]) == 64
    assert digests[0] == digests[1] == digests[2]

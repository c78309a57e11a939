"""What many nodes cost a running stack: `TOKENYARD_VAR=… python -m benchmarks.nodes [--nodes 1000] [--herd]`.

Runs `manage.py fleet simulate --probe` beside the stack and reads the processes of its control plane from /proc: CPU
once all nodes are linked, memory at its most. With `--herd` web is killed on the way, so that all come back at once.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

PROCESSES = ("web", "controller", "beat")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_LINKED = "linked "
_MIB_PER_KIB = 1 / 1024


@dataclass
class Usage:
    """CPU seconds and time at the beginning and now, MiB at most; over restarts, as a new process begins at 0 again."""

    cpu_s: float = 0.0
    most_mib: float = 0.0
    pid: int = 0
    _last_s: float = 0.0

    def sample(self, pid: int) -> None:
        spent_s, mib = _cpu_s(pid), _resident_mib(pid)
        self.cpu_s += spent_s - (self._last_s if pid == self.pid else 0.0) if self.pid else 0.0
        self.pid, self._last_s, self.most_mib = pid, spent_s, max(self.most_mib, mib)


@dataclass
class Run:
    usages: dict[str, Usage] = field(default_factory=lambda: {name: Usage() for name in PROCESSES})
    begun_at: float | None = None
    killed_at: float | None = None
    back_at: float | None = None

    def sample(self, var: Path) -> None:
        for name, pid in _pids(var).items():
            self.usages[name].sample(pid)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--herd", action="store_true")
    arguments = parser.parse_args()
    var, run = Path(os.environ["TOKENYARD_VAR"]), Run()
    for line in _simulate(arguments):
        sys.stdout.write(line)
        sys.stdout.flush()
        if line.startswith(_LINKED):
            _take(run, int(line.split()[1].rstrip(",")), arguments, var)
    _say(run)
    return 0


def _simulate(arguments: argparse.Namespace) -> Iterator[str]:
    words = ["simulate", "--nodes", arguments.nodes, "--gpus", arguments.gpus, "--seconds", arguments.seconds]
    command = [sys.executable, "-m", "deploy.local", "manage", "fleet", *map(str, words), "--probe", "--keep"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield from process.stdout or ()


def _take(run: Run, linked: int, arguments: argparse.Namespace, var: Path) -> None:
    now, is_full = time.monotonic(), linked >= arguments.nodes
    if run.begun_at is None:
        if not is_full:
            return
        run.begun_at = now
    run.sample(var)
    if run.killed_at is None and arguments.herd and now - run.begun_at > arguments.seconds / 3:
        os.kill(_pids(var)["web"], signal.SIGKILL)
        run.killed_at = now
    elif run.killed_at is not None and run.back_at is None and is_full:
        run.back_at = now


def _say(run: Run) -> None:
    if run.begun_at is None:
        print("not all nodes were linked")
        return
    lasted_s = time.monotonic() - run.begun_at
    for name, usage in run.usages.items():
        print(f"{name:10} {usage.cpu_s / lasted_s:6.1%} of a core, {usage.most_mib:4.0f} MiB")
    together = sum(usage.cpu_s for usage in run.usages.values()) / lasted_s
    print(f"together   {together:6.1%} of a core, {sum(each.most_mib for each in run.usages.values()):4.0f} MiB")
    if run.killed_at is not None:
        print(
            f"after web was killed all were back in {run.back_at - run.killed_at:.0f} s"
            if run.back_at
            else "not all came back"
        )


def _pids(var: Path) -> dict[str, int]:
    state = msgspec.json.decode((var / "run" / "state.json").read_bytes())
    known = {each["name"]: each["pid"] for each in state["processes"]}
    return {name: known[name] for name in PROCESSES if known.get(name) and Path(f"/proc/{known[name]}").exists()}


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * _MIB_PER_KIB


if __name__ == "__main__":
    sys.exit(main())

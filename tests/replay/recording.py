"""Event logs of a scheduler: written as they happen, played again without a driver.

    python -m tests.replay.recording      writes golden/*.jsonl.gz anew, after a change of policy that is meant

A line is one event and what came back: [method, arguments, named arguments, commands].
"""

import gzip
from pathlib import Path
from typing import Any

import msgspec

from tests.replay.faults import Trouble
from workers.scheduling.endpoint_spec import EndpointSpec
from workers.scheduling.interface import Command, EngineReport, KVChange, Request, SchedulerConfig
from workers.scheduling.scheduler import Scheduler
from workers.simulator.lab import Lab

CONFIG = SchedulerConfig(max_queued_requests=1_000_000, stall_after_s=2.0)
GOLDEN = Path(__file__).parent / "golden"
TRACES = Path(__file__).parents[1] / "data" / "traces"
SCENES: dict[str, Any] = {
    "chat": ("W1", 1.5, 12.0),
    "classes": ("W3", 0.8, 4.0),
    "workflows": ("W5", 3.0, 15.0),
    "faults": None,
}
PLAIN = {"request": Request, "report": EngineReport}
TYPES = {"spec": EndpointSpec, "changes": list[KVChange]}
POSITIONS = {
    "request_arrived": ("request",),
    "endpoint_reported": (None, "report"), "report_noted": (None, "report"), "prefixes_changed": (None, "changes"),
}  # fmt: skip


class Recorder:
    """Stands between a driver and its scheduler, and notes every event."""

    def __init__(self, core):
        self._core = core
        self.lines = []

    def __getattr__(self, name):
        method = getattr(self._core, name)
        if name in {"next_deadline", "queued_total", "reports_matter_at"}:
            return method

        def call(*args, **named):
            answer = method(*args, **named)
            self.lines.append(msgspec.json.encode([name, args, named, as_text(answer)], enc_hook=fields_of))
            return answer

        return call


def fields_of(item: Request | EngineReport) -> dict[str, Any]:
    """Compiled or not: what is public and no method."""
    names = [name for name in dir(item) if not name.startswith("_")]
    return {name: value for name in names if not callable(value := getattr(item, name))}


def argument_of(kind: str | None, value: Any) -> Any:
    if kind in PLAIN:
        fields = {name: tuple(field) if isinstance(field, list) else field for name, field in value.items()}
        return PLAIN[kind](**fields)
    return msgspec.convert(value, TYPES[kind]) if kind in TYPES else value


def as_text(commands: list[Command] | None) -> list[str]:
    return [repr(command) for command in commands or []]


def record(scene: str) -> list[bytes]:
    recorder: Any = Recorder(Scheduler(CONFIG))
    if scene == "faults":
        Trouble(recorder).run(3000)
        return list(recorder.lines)
    name, load, duration_s = SCENES[scene]
    lab = Lab(TRACES)
    workload = lab.workload(name, load, 1, duration_s)
    # The lab's scheduler knows the engines beforehand; the log must say it, so that any scheduler can play it.
    spec = vars(lab.core("tokenyard", workload, 1))["_usual_spec"]
    updated = recorder.endpoint_updated
    recorder.endpoint_updated = lambda *args, **named: updated(*args, **{**named, "spec": spec})
    lab.play(workload, recorder)
    return list(recorder.lines)


def replay(lines: list[bytes]) -> list[tuple[list[str], list[str]]]:
    """What a new scheduler answers, beside what was recorded."""
    scheduler = Scheduler(CONFIG)
    pairs = []
    for line in lines:
        name, args, named, recorded = msgspec.json.decode(line)
        positions = POSITIONS.get(name, ())
        kinds = [*positions, *[None] * (len(args) - len(positions))]
        args = [argument_of(kind, arg) for arg, kind in zip(args, kinds, strict=True)]
        named = {key: argument_of(key, value) for key, value in named.items()}
        pairs.append((as_text(getattr(scheduler, name)(*args, **named)), recorded))
    return pairs


def read(scene: str) -> list[bytes]:
    return gzip.decompress((GOLDEN / f"{scene}.jsonl.gz").read_bytes()).splitlines()


def main() -> None:
    for scene in SCENES:
        (GOLDEN / f"{scene}.jsonl.gz").write_bytes(gzip.compress(b"\n".join(record(scene)) + b"\n", mtime=0))


if __name__ == "__main__":
    main()

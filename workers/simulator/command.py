"""Runs an experiment in this process: JSON on standard input, a JSON line for each step and each summary on output."""

import sys

import msgspec

from workers.simulator.experiments import Experiment, ExperimentError, run
from workers.simulator.summary import Summary


class Line(msgspec.Struct, omit_defaults=True):
    """One of: progress with its text, a summary, an error."""

    progress: float | None = None
    text: str = ""
    summary: Summary | None = None
    error: str = ""


def _print(line: Line) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


def main() -> int:
    try:
        experiment = msgspec.json.decode(sys.stdin.buffer.read(), type=Experiment)
        for summary in run(experiment, lambda done, text: _print(Line(progress=done, text=text))):
            _print(Line(summary=summary))
    except (ExperimentError, msgspec.DecodeError) as error:
        _print(Line(error=str(error)))
        return 1
    return 0

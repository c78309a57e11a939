"""The policy lab's entry: what can be tried on which trace, and what came of it.

The control plane imports this module and no other of the simulator. `python -m workers.simulator` runs an
experiment in a process of its own.
"""

import csv
import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct, structs

from workers.scheduling.peers.registry import build_peer
from workers.simulator.lab import CLAIRVOYANT, FLEET_SIZE, LENGTH_SIGMA, OURS, Lab, jobs_of, read_tuning
from workers.simulator.replay import ReplayConfig
from workers.simulator.summary import Summary, summarise
from workers.simulator.traces import TraceRequest, default_folder, read_lengths, read_prefixes
from workers.simulator.uploads import MAX_UPLOAD_BYTES, name_of_upload, pack_upload
from workers.simulator.workloads.registry import WORKLOADS
from workers.simulator.workloads.requests import RecordedRequest, of_requests, of_trace
from workers.simulator.workloads.workload import Workload, predict

__all__ = [
    "CLAIRVOYANT", "MAX_UPLOAD_BYTES", "OURS", "RECORDS", "UPLOAD", "Experiment", "FleetPart", "RecordedRequest",
    "Summary", "name_of_upload", "pack_upload", "read_through", "run",
]  # fmt: skip

RECORDS = "usage-records"
UPLOAD = "upload"
POLICIES = (
    OURS, "round-robin", "random", "least-outstanding", "power-of-two", "cache-aware", "prefix-aware", "prefix-load",
    "kv-cost", "kv-cost+32+edf+late", "least-outstanding+32+fcfs", "least-outstanding+32+vtc",
    "least-outstanding+32+priority+late", "least-outstanding+32+sjf", "least-outstanding+engine", CLAIRVOYANT,
)  # fmt: skip
"""Offered by name; any other combination that `workers/scheduling/peers/registry.py` knows may be named too."""
MAX_REPLICAS = 64
USD_PER_GPU_HOUR = 2.5
_FLEET_PART = re.compile(r"(?P<replicas>\d{1,4})x(?P<engine>\S+)", re.ASCII)

Report = Callable[[float, str], None]
"""Share done, and what is being done."""


class ExperimentError(ValueError):
    """The message says what is wrong, for a person."""


class FleetPart(Struct, frozen=True):
    """Replicas of the same model on another GPU, beside those of the experiment's own engine."""

    engine: str
    replicas: int


class Experiment(Struct, frozen=True, kw_only=True):
    """`trace` is a workload (W1 to W5), a trace file's name or path, or RECORDS with `requests`.

    `load` counts for workloads, `speed` (times as fast as recorded) for the others. `in_slo_wanted` is the share of
    requests within their SLO that `replicas_needed` is looked for; 0 does not look.
    """

    trace: str
    policies: tuple[str, ...] = (OURS, "least-outstanding")
    replicas: int = FLEET_SIZE
    engine: str = "llama3-8b/h100/tp1"
    load: float = 1.0
    speed: float = 1.0
    duration_s: float | None = None
    seed: int = 1
    ttft_slo_s: float = 2.0
    tpot_slo_s: float = 0.15
    in_slo_wanted: float = 0.0
    usd_per_gpu_hour: float = USD_PER_GPU_HOUR
    requests: tuple[RecordedRequest, ...] = ()
    others: tuple[FleetPart, ...] = ()


def parse_fleet(text: str) -> list[FleetPart]:
    """`2xllama3-8b/h100/tp1+2xllama3-8b/a100/tp1`, or without a +; raises ExperimentError."""
    parts = [_FLEET_PART.fullmatch(part.strip()) for part in text.split("+")]
    if None in parts:
        raise ExperimentError("Name a fleet as 4xllama3-8b/h100/tp1, more kinds after a +.")
    return [FleetPart(part["engine"], int(part["replicas"])) for part in parts if part is not None]


def list_traces(folder: Path | None = None) -> list[str]:
    """What there is on this machine: workloads and trace files; none where the traces were not installed."""
    folder = folder or default_folder()
    if not folder.is_dir():
        return []
    files = sorted(path.name.split(".")[0] for path in folder.iterdir() if _reader_of(path) is not None)
    return [*WORKLOADS, *files]


def list_engines(folder: Path | None = None) -> list[str]:
    return Lab(folder).engines()


def read_through(trace: str, folder: Path | None = None) -> int:
    """How many requests a trace file has; raises ExperimentError for what cannot be read."""
    return len(_read(trace, folder or default_folder()))


def check(experiment: Experiment, folder: Path | None = None) -> None:
    """Raises ExperimentError for what could not be run."""
    if not experiment.policies:
        raise ExperimentError("Choose at least one policy.")
    for policy in experiment.policies:
        check_policy(policy)
    for name in ("load", "speed", "ttft_slo_s", "tpot_slo_s"):
        if not 0 < getattr(experiment, name) < float("inf"):
            raise ExperimentError(f"{name} must be more than 0.")
    if experiment.duration_s is not None and not 0 < experiment.duration_s < float("inf"):
        raise ExperimentError("duration_s must be more than 0.")
    _check_fleet(experiment, list_engines(folder))
    _check_trace(experiment, folder)


def _check_fleet(experiment: Experiment, engines: list[str]) -> None:
    parts = [FleetPart(experiment.engine, experiment.replicas), *experiment.others]
    if any(part.replicas < 1 for part in parts) or sum(part.replicas for part in parts) > MAX_REPLICAS:
        raise ExperimentError(f"Choose between 1 and {MAX_REPLICAS} replicas.")
    for part in parts:
        if part.engine not in engines:
            raise ExperimentError(f"There are no costs of an engine {part.engine!r}.")


def _check_trace(experiment: Experiment, folder: Path | None) -> None:
    if experiment.trace == RECORDS and not experiment.requests:
        raise ExperimentError("There are no usage records to replay.")
    if experiment.trace in WORKLOADS and experiment.trace not in list_traces(folder):
        raise ExperimentError("The public traces are not installed; TOKENYARD_TRACES names their folder.")
    if experiment.trace not in {RECORDS, *WORKLOADS} and _path_of(experiment.trace, folder) is None:
        raise ExperimentError(f"There is no trace {experiment.trace!r}.")


def run(experiment: Experiment, report: Report, folder: Path | None = None) -> Iterator[Summary]:
    """One summary per policy, as they come; the same experiment gives the same summaries."""
    check(experiment, folder)
    lab = Lab(folder)
    for number, policy in enumerate(experiment.policies):
        done = number / len(experiment.policies)
        report(done, f"{policy}: {experiment.replicas} replicas")
        summary = _play(lab, experiment, policy, experiment.replicas)
        if experiment.in_slo_wanted > 0:
            needed = _replicas_needed(lab, experiment, policy, partial(report, done), summary)
            summary = structs.replace(summary, replicas_needed=needed)
        yield summary
    report(1.0, "done")


def _play(lab: Lab, experiment: Experiment, policy: str, replicas: int) -> Summary:
    workload = _workload(lab, experiment)
    if not jobs_of(workload):
        raise ExperimentError("No request falls into this time.")
    core = lab.core(policy, workload, experiment.seed)
    others = [part.engine for part in experiment.others for _ in range(part.replicas)]
    specs = lab.specs(others, policy, workload, experiment.seed)
    outcome = lab.play(workload, core, ReplayConfig(), fleet=replicas, others=specs)
    accelerators = replicas * _accelerators(workload.engine) + sum(map(_accelerators, others))
    usd_per_hour = experiment.usd_per_gpu_hour * accelerators
    fleet = replicas + len(others)
    return summarise(policy, workload, outcome.jobs, ended_at=outcome.ended_at, fleet=fleet, usd_per_hour=usd_per_hour)


def _workload(lab: Lab, experiment: Experiment) -> Workload:
    """Jobs remember what happened to them, so each run has its own."""
    if experiment.trace in WORKLOADS:
        return lab.workload(experiment.trace, experiment.load, experiment.seed, experiment.duration_s)
    if experiment.trace == RECORDS:
        workload = of_requests(experiment.requests, experiment)
    else:
        workload = of_trace(_read(experiment.trace, lab.folder), experiment)
    predict(jobs_of(workload), LENGTH_SIGMA, Random(f"lengths {experiment.seed}"))
    return workload


def _replicas_needed(
    lab: Lab, experiment: Experiment, policy: str, report: Callable[[str], None], known: Summary
) -> int | None:
    """The least fleet that keeps the share within SLO, by bisection; None when MAX_REPLICAS do not either."""
    low, high = 1, experiment.replicas
    is_met = known.scores.in_slo >= experiment.in_slo_wanted
    while not is_met and high < MAX_REPLICAS:
        low, high = high + 1, min(MAX_REPLICAS, high * 2)
        report(f"{policy}: {high} replicas")
        is_met = _play(lab, experiment, policy, high).scores.in_slo >= experiment.in_slo_wanted
    if not is_met:
        return None
    while low < high:
        middle = (low + high) // 2
        report(f"{policy}: {middle} replicas")
        if _play(lab, experiment, policy, middle).scores.in_slo >= experiment.in_slo_wanted:
            high = middle
        else:
            low = middle + 1
    return high


def check_policy(policy: str) -> None:
    """Raises ExperimentError for what is no policy's name."""
    if policy in {OURS, CLAIRVOYANT}:
        return
    try:
        if policy.startswith(f"{OURS}/"):
            read_tuning(policy)
            return
        build_peer(policy, 1, Random(0))
    except (KeyError, ValueError, IndexError, msgspec.ValidationError) as error:
        raise ExperimentError(f"There is no policy {policy!r}.") from error


def _accelerators(engine: str) -> int:
    return int(engine.rsplit("tp", 1)[1])


def _reader_of(path: Path) -> "Callable[[Path], list[TraceRequest]] | None":
    if path.name.endswith((".csv.gz", ".csv")):
        return read_lengths if _has_times(path) else None
    is_session = "sessions" in path.name or "agents" in path.name
    return read_prefixes if path.name.endswith((".jsonl.gz", ".jsonl")) and not is_session else None


def _has_times(path: Path) -> bool:
    return "lengths" not in path.name


def _path_of(trace: str, folder: Path | None) -> Path | None:
    folder = folder or default_folder()
    candidates = [folder / f"{trace}{ending}" for ending in (".csv.gz", ".jsonl.gz", ".csv", ".jsonl")]
    if "/" in trace:
        candidates = [Path(trace)]
    return next((path for path in candidates if path.is_file() and _reader_of(path) is not None), None)


def _read(trace: str, folder: Path) -> list[TraceRequest]:
    path = _path_of(trace, folder)
    reader = None if path is None else _reader_of(path)
    if path is None or reader is None:
        raise ExperimentError(f"There is no trace {trace!r}.")
    try:
        return reader(path)
    except (ValueError, KeyError, TypeError, OSError, EOFError, zlib.error, csv.Error) as error:
        raise ExperimentError(f"The trace {trace!r} cannot be read: {error}") from error

"""The score table: our policy and the peers' on public traces, on a simulated fleet.

    python benchmarks/goodput.py [--workload W3] [--policies tokenyard,kv-cost] [--seeds 1,2] [--load 0.7]
        [--half] [--begin 0.5] [--measured] [--json F]

Without --policies: ours, and for each workload the peers that do best on it, with the knobs that do best on it. A run
is 300 to 360 s of simulated time and takes about a second; how far it is, and how long the rest will take, goes to
standard error. The rows of --json have the table's columns by name; a row is a mean over the seeds, and `class_shares`
are the shares of requests within their SLO by class, or of all where there is only one class.
"""

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it can be run as a file

from workers.compiled.finder import prefer_compiled
from workers.contracts.cache import find_cache

# Who only imports it, as a test does, goes on with what it has.
is_compiled = __name__ == "__main__" and prefer_compiled(find_cache(os.environ), os.environ)

from workers.simulator.experiments import ExperimentError, check_policy  # noqa: E402
from workers.simulator.lab import CLAIRVOYANT, FLEET_SIZE, Lab  # noqa: E402
from workers.simulator.report import Scores, score  # noqa: E402
from workers.simulator.traces import TRACES_VARIABLE, default_folder  # noqa: E402
from workers.simulator.workloads.registry import WORKLOADS  # noqa: E402

LOADS = {"W1": (1.0, 1.25, 1.5), "W2": (3.0, 4.5), "W3": (0.4,), "W4": (2.0,), "W5": (3.0,)}
ROUTERS = (
    "round-robin",
    "random",
    "least-outstanding",
    "power-of-two",
    "cache-aware",
    "prefix-aware",
    "prefix-load",
    "kv-cost",
)
QUEUES = {
    "W1": ("prefix-load+16+edf+late", "kv-cost+32+edf+late", "kv-cost+32+sjf", "kv-cost+32+fcfs+deep"),
    "W2": ("prefix-load+32+edf+late", "prefix-load+64+edf+late", "prefix-load+64+sjf", "prefix-load+saturation+edf"),
    "W3": ("least-outstanding+engine",
           "least-outstanding+32+priority+late", "least-outstanding+16+priority+late", "least-outstanding+32+vtc",
           "least-outstanding+32+edf+late", "least-outstanding+saturation+priority", "least-outstanding+32+fcfs+class"),
    "W4": ("least-outstanding+32+sjf", "least-outstanding+32+edf+late", "least-outstanding+32+fcfs+deep",
           "least-outstanding+32+fcfs+old"),
    "W5": ("kv-cost+16+edf", "kv-cost+32+edf", "kv-cost+32+edf+late", "prefix-load+32+edf"),
}  # fmt: skip
OURS = ("tokenyard", "tokenyard/is_fair:0", CLAIRVOYANT)
MAX_CLASSES = 3
MAX_LOAD = 100.0


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Means over the seeds; `simulated_per_s` are requests by CPU second."""

    workload: str
    load: float
    policy: str
    value: float
    in_slo: float
    goodput_per_s: float
    ttft_p50_s: float
    ttft_p99_s: float
    tpot_p50_ms: float
    hit_rate: float
    refused: float
    wasted: float
    class_shares: dict[str, float]
    jain: float
    usd_per_1000_in_time: float
    simulated_per_s: float


class Cell(NamedTuple):
    workload: str
    load: float
    policy: str


def mean_scores(runs: list[Scores]) -> Scores:
    fields = {
        name: statistics.mean(getattr(run, name) for run in runs)
        for name in Scores.__struct_fields__
        if name != "by_tenant"
    }
    tenants = runs[0].by_tenant
    by_tenant = {tenant: statistics.mean(run.by_tenant.get(tenant, 0.0) for run in runs) for tenant in tenants}
    return Scores(by_tenant=by_tenant, **fields)


def measure(lab: Lab, name: str, load: float, policy: str, seeds: list[int]) -> Row:
    runs, requests, elapsed_s = [], 0, 0.0
    for seed in seeds:
        workload = lab.workload(name, load, seed)
        core = lab.core(policy, workload, seed)
        began = time.process_time()
        outcome = lab.play(workload, core)
        elapsed_s += time.process_time() - began
        requests += len(outcome.jobs)
        runs.append(score(workload, outcome.jobs, outcome.ended_at, FLEET_SIZE))
    scores = msgspec.structs.asdict(mean_scores(runs))
    shares = scores.pop("by_tenant")
    classes = shares if 1 < len(shares) <= MAX_CLASSES else {"all": scores["in_slo"]}
    per_s = requests / elapsed_s
    return Row(workload=name, load=load, policy=policy, class_shares=classes, simulated_per_s=per_s, **scores)


def print_row(row: Row) -> None:
    cells = (
        row.workload, f"{row.load:.3g}", row.policy, f"{row.value:.3f}", f"{row.in_slo:.3f}",
        f"{row.goodput_per_s:.2f}", f"{row.ttft_p50_s:.2f}", f"{row.ttft_p99_s:.1f}", f"{row.tpot_p50_ms:.0f}",
        f"{row.hit_rate:.2f}", f"{row.refused:.3f}", f"{row.wasted:.2f}",
        " ".join(f"{name}:{share:.3f}" for name, share in row.class_shares.items()),
        f"{row.jain:.2f}", f"{row.usd_per_1000_in_time:.2f}", f"{row.simulated_per_s:.0f}",
    )  # fmt: skip
    print("| " + " | ".join(cells) + " |", flush=True)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=sorted(LOADS), action="append", help="may be given again; all without it")
    parser.add_argument("--policies", help="comma-separated; see workers/scheduling/peers/registry.py")
    parser.add_argument("--seeds", default="1,2,3", help="comma-separated numbers")
    parser.add_argument("--load", type=float, help="instead of the workload's own loads")
    parser.add_argument("--half", action="store_true", help="at half of the loads")
    parser.add_argument(
        "--measured", action="store_true",
        help="1.0 is what a backlogged fleet completes behind least-outstanding routing, measured here",
    )  # fmt: skip
    parser.add_argument("--begin", type=float, default=0.0, help="leaves out this share of each trace's start: 0.5")
    parser.add_argument("--traces", type=Path, help=f"folder of the trace files; without it {TRACES_VARIABLE}, "
                        "or shared/data/traces beside the checkout")  # fmt: skip
    parser.add_argument("--json", type=Path, help="writes the rows there as well, after each row")
    arguments = parser.parse_args()
    complaint = what_is_wrong(arguments)
    if complaint:
        parser.error(complaint)
    return arguments


def what_is_wrong(arguments: argparse.Namespace) -> str:
    """For a person; empty where nothing is."""
    folder = arguments.traces or default_folder()
    if not folder.is_dir():
        return f"there are no traces in {folder}; name their folder with --traces or {TRACES_VARIABLE}"
    if not all(seed.strip().isdecimal() for seed in arguments.seeds.split(",")):
        return "--seeds are whole numbers, separated by commas"
    if arguments.load is not None and not 0 < arguments.load <= MAX_LOAD:
        return f"--load is more than 0 and at most {MAX_LOAD:.0f}"
    if not 0 <= arguments.begin < 1:
        return "--begin is a share: at least 0 and less than 1"
    if arguments.json and not arguments.json.absolute().parent.is_dir():
        return f"there is no folder {arguments.json.absolute().parent} for --json"
    return what_is_wrong_with((arguments.policies or OURS[0]).split(","))


def what_is_wrong_with(policies: list[str]) -> str:
    try:
        for policy in policies:
            check_policy(policy)
    except ExperimentError as error:
        return str(error)
    return ""


def cells_of(lab: Lab, arguments: argparse.Namespace, seeds: list[int]) -> list[Cell]:
    cells: list[Cell] = []
    for name in arguments.workload or sorted(LOADS):
        policies = arguments.policies.split(",") if arguments.policies else (*OURS, *ROUTERS, *QUEUES[name])
        unit = lab.capacity_per_s(name, seeds) / WORKLOADS[name].unit_per_s if arguments.measured else 1.0
        for load in (arguments.load,) if arguments.load else LOADS[name]:
            cells += [Cell(name, unit * load / (2 if arguments.half else 1), policy) for policy in policies]
    return cells


def tell_progress(done: int, total: int, elapsed_s: float) -> None:
    left_s = elapsed_s / done * (total - done)
    sys.stderr.write(f"row {done} of {total} after {elapsed_s:.0f} s, about {left_s:.0f} s to go\n")


def main() -> None:
    arguments = read_arguments()
    lab = Lab(arguments.traces, arguments.begin)
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    rows: list[Row] = []
    print("| " + " | ".join(Row.__struct_fields__) + " |")
    print("|" + "---|" * len(Row.__struct_fields__), flush=True)
    if not is_compiled:
        sys.stderr.write("interpreted; some six times as fast after `python -m workers.compiled`\n")
    began = time.monotonic()
    cells = cells_of(lab, arguments, seeds)
    for cell in cells:
        rows.append(measure(lab, *cell, seeds))
        print_row(rows[-1])
        tell_progress(len(rows), len(cells), time.monotonic() - began)
        if arguments.json:
            arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=1))


if __name__ == "__main__":
    main()

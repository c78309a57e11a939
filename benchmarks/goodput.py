"""The score table: our policy and the peers' on public traces, on a simulated fleet.

    python benchmarks/goodput.py [--workload W3] [--policies tokenyard,kv-cost] [--seeds 1,2] [--load 0.7]
        [--half] [--begin 0.5] [--measured] [--json F]

Without --policies: ours, and for each workload the peers that do best on it, with the knobs that do best on it.
"""

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that it can be run as a file

from workers.compiled.finder import prefer_compiled
from workers.contracts.cache import find_cache

prefer_compiled(find_cache(os.environ), os.environ)

from workers.simulator.lab import CLAIRVOYANT, FLEET_SIZE, Lab  # noqa: E402
from workers.simulator.report import Scores, score  # noqa: E402
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
HEADINGS = (
    "workload", "load", "policy", "value", "in_slo", "goodput_per_s", "ttft_p50_s", "ttft_p99_s", "tpot_p50_ms",
    "hit_rate", "refused", "wasted", "jain", "usd_per_1000", "classes",
)  # fmt: skip


class Row(msgspec.Struct, frozen=True):
    """Means over the seeds."""

    workload: str
    load: float
    policy: str
    scores: Scores
    simulated_per_s: float


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
    return Row(name, load, policy, mean_scores(runs), requests / elapsed_s)


def print_row(row: Row) -> None:
    scores = row.scores
    classes = scores.by_tenant if len(scores.by_tenant) <= len("GSB") else {}
    cells = (
        row.workload, f"{row.load:.3g}", row.policy, f"{scores.value:.3f}", f"{scores.in_slo:.3f}",
        f"{scores.goodput_per_s:.2f}", f"{scores.ttft_p50_s:.2f}", f"{scores.ttft_p99_s:.1f}",
        f"{scores.tpot_p50_ms:.0f}", f"{scores.hit_rate:.2f}", f"{scores.refused:.3f}", f"{scores.wasted:.2f}",
        f"{scores.jain:.2f}", f"{scores.usd_per_1000_in_time:.2f}",
        " ".join(f"{name}:{share:.3f}" for name, share in classes.items()) or "-",
    )  # fmt: skip
    print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=sorted(LOADS), action="append")
    parser.add_argument("--policies", help="comma-separated; see workers/scheduling/peers/registry.py")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--load", type=float, help="instead of the workload's own loads")
    parser.add_argument("--half", action="store_true", help="at half of the loads")
    parser.add_argument(
        "--measured", action="store_true",
        help="1.0 is what a backlogged fleet completes behind least-outstanding routing, measured here",
    )  # fmt: skip
    parser.add_argument("--begin", type=float, default=0.0, help="leaves out this share of each trace's start: 0.5")
    parser.add_argument("--traces", type=Path, help="folder of the trace files")
    parser.add_argument("--json", type=Path, help="writes the rows there as well")
    arguments = parser.parse_args()
    lab = Lab(arguments.traces, arguments.begin)
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    rows = []
    print("| " + " | ".join(HEADINGS) + " |")
    print("|" + "---|" * len(HEADINGS))
    for name in arguments.workload or sorted(LOADS):
        policies = arguments.policies.split(",") if arguments.policies else (*OURS, *ROUTERS, *QUEUES[name])
        unit = lab.capacity_per_s(name, seeds) / WORKLOADS[name].unit_per_s if arguments.measured else 1.0
        loads = [arguments.load] if arguments.load else LOADS[name]
        for load in [unit * load / (2 if arguments.half else 1) for load in loads]:
            for policy in policies:
                rows.append(measure(lab, name, load, policy, seeds))
                print_row(rows[-1])
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=1))


if __name__ == "__main__":
    main()

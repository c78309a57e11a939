"""One run: a workload, a policy's name, a seed → what happened."""

import json
from pathlib import Path
from random import Random

import msgspec

from workers.scheduling.interface import Core
from workers.scheduling.latency.step_cost import StepCost
from workers.scheduling.peers.registry import build_peer
from workers.simulator.engine import Engine, EngineLimits
from workers.simulator.job import Job
from workers.simulator.replay import Replay, ReplayConfig
from workers.simulator.traces import default_folder
from workers.simulator.workloads.registry import WORKLOADS
from workers.simulator.workloads.workload import Workload, predict

FLEET_SIZE = 4
LENGTH_SIGMA = 0.4
COST_ERROR = 0.15
CAPACITY_LOAD_S = 300.0


class Outcome(msgspec.Struct, frozen=True):
    workload: Workload
    jobs: list[Job]
    core: Core
    ended_at: float


def load_costs(folder: Path) -> dict[str, StepCost]:
    content = json.loads((folder.parent / "engines" / "engine_costs.json").read_bytes())
    return msgspec.convert(content["configs"], type=dict[str, StepCost])


def jobs_of(workload: Workload) -> list[Job]:
    return workload.jobs + [call.job for session in workload.sessions for call in session.calls]


class Lab:
    """Builds workloads from the traces of a folder and plays them; remembers what capacity each was found to have."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or default_folder()
        self._costs = load_costs(self._folder)
        self._capacities: dict[str, float] = {}

    def workload(self, name: str, load: float, seed: int) -> Workload:
        engine, build, duration_s = WORKLOADS[name]
        rate_per_s = load * self.capacity_per_s(name)
        workload = build(self._folder, self._costs[engine], load, rate_per_s, duration_s, Random(f"{name} {seed}"))
        predict(jobs_of(workload), LENGTH_SIGMA, Random(f"lengths {seed}"))
        return workload

    def capacity_per_s(self, name: str) -> float:
        """Requests per second that a backlogged fleet completes behind least-outstanding routing."""
        if name not in self._capacities:
            self._capacities[name] = self._measure_capacity(name)
        return self._capacities[name]

    def play(self, workload: Workload, core: Core, config: ReplayConfig | None = None, fleet: int = FLEET_SIZE) -> Outcome:
        cost = self._costs[workload.engine]
        engines = [Engine(f"e{number}", cost, workload.limits) for number in range(fleet)]
        replay = Replay(core, engines, workload, config or ReplayConfig())
        replay.run()
        return Outcome(workload, jobs_of(workload), core, replay.now)

    def core(self, policy: str, workload: Workload, seed: int) -> Core:
        cost = self._costs[workload.engine]
        return build_peer(policy, cost.kv_capacity_tokens, Random(f"policy {seed}"))

    def _measure_capacity(self, name: str) -> float:
        engine, build, _ = WORKLOADS[name]
        workload = build(self._folder, self._costs[engine], 1.0, 20.0, CAPACITY_LOAD_S, Random(name))
        jobs = jobs_of(workload)
        for job in jobs:
            job.arrived_at = 0.0
        backlog = Workload(name=name, load=0.0, engine=engine, limits=workload.limits, jobs=jobs)
        core = build_peer("least-outstanding", 1, Random(0))
        self.play(backlog, core, ReplayConfig(report_age_s=0.0))
        ended = sorted(job.finished_at or 0.0 for job in jobs)
        tenth = len(ended) // 10
        return (len(ended) - 2 * tenth) / (ended[-tenth] - ended[tenth])


def noisy(cost: StepCost, limits: EngineLimits, rng: Random) -> StepCost:
    """The parameters as a gateway would know them: each off by up to COST_ERROR."""
    del limits
    names = ("t_fixed_ms", "ms_per_seq", "t_weight_ms", "ms_per_token", "attn_fixed_ms", "ms_per_ctx_token", "ms_per_attn_pair")
    return msgspec.structs.replace(
        cost, **{name: getattr(cost, name) * rng.uniform(1 - COST_ERROR, 1 + COST_ERROR) for name in names}
    )

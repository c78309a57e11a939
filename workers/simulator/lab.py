"""One run: a workload, a policy's name, a seed → what happened."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import mean

import msgspec

from workers.engines.costs import load_profiles
from workers.scheduling.endpoint_spec import EndpointSpec
from workers.scheduling.interface import Core, SchedulerConfig
from workers.scheduling.latency.step_cost import StepCost
from workers.scheduling.peers.registry import build_peer
from workers.scheduling.peers.router import Router
from workers.scheduling.scheduler import Scheduler
from workers.scheduling.tuning import Tuning
from workers.simulator.engine import Engine
from workers.simulator.job import Job
from workers.simulator.replay import Replay, ReplayConfig
from workers.simulator.traces import default_folder
from workers.simulator.workloads.registry import WORKLOADS
from workers.simulator.workloads.workload import Setting, Workload, predict

FLEET_SIZE = 4
OURS = "tokenyard"
CLAIRVOYANT = "clairvoyant"
"""Ours with the exact length of every answer and the exact costs of the engines: what better estimates are worth."""
Other = tuple[str, EndpointSpec]
"""An engine's name, and what the scheduler knows of it."""
LENGTH_SIGMA = 0.4
BACKLOGGED_LOAD, BACKLOGGED_S = 10.0, 60.0
COST_ERROR = 0.15


class Outcome(msgspec.Struct, frozen=True):
    workload: Workload
    jobs: list[Job]
    core: Core
    ended_at: float


def load_costs(folder: Path) -> dict[str, StepCost]:
    """Those that lie beside the traces, or else those that engines are started with."""
    file = folder.parent / "engines" / "engine_costs.json"
    if not file.is_file():
        return load_profiles()
    return msgspec.convert(json.loads(file.read_bytes())["configs"], type=dict[str, StepCost])


def jobs_of(workload: Workload) -> list[Job]:
    return workload.jobs + [call.job for session in workload.sessions for call in session.calls]


class Lab:
    """Builds workloads from the traces of a folder and plays them."""

    def __init__(self, folder: Path | None = None, begin: float = 0.0) -> None:
        """`begin` leaves out that share of each trace at its start."""
        self._begin = begin
        self.folder = folder or default_folder()
        self._costs = load_costs(self.folder)

    def engines(self) -> list[str]:
        return list(self._costs)

    def cost_of(self, engine: str) -> StepCost:
        return self._costs[engine]

    def workload(self, name: str, load: float, seed: int, duration_s: float | None = None) -> Workload:
        recipe = WORKLOADS[name]
        rng = Random(f"{name} {seed}")
        rate_per_s = load * recipe.unit_per_s
        duration_s = recipe.duration_s if duration_s is None else duration_s
        setting = Setting(self.folder, self._costs[recipe.engine], load, rate_per_s, duration_s, rng, self._begin)
        workload = recipe.build(setting)
        predict(jobs_of(workload), LENGTH_SIGMA, Random(f"lengths {seed}"))
        return workload

    def play(
        self,
        workload: Workload,
        core: Core,
        config: ReplayConfig | None = None,
        fleet: int = FLEET_SIZE,
        others: Sequence[Other] = (),
        *,
        cost: StepCost | None = None,
    ) -> Outcome:
        """`fleet` replicas of the workload's own engine, or of one that costs otherwise, and `others` beside them."""
        cost = cost or self._costs[workload.engine]
        is_by_priority = isinstance(core, Router) and core.uses_engine_priorities
        limits = msgspec.structs.replace(workload.limits, is_by_priority=is_by_priority)
        engines = [Engine(f"e{number}", cost, limits) for number in range(fleet)]
        specs: dict[str, EndpointSpec] = {}
        for number, (name, spec) in enumerate(others, start=fleet):
            engines.append(Engine(f"e{number}", self._costs[name], limits))
            specs[f"e{number}"] = spec
        replay = Replay(core, engines, workload, config or ReplayConfig(), specs)
        replay.run()
        return Outcome(workload, jobs_of(workload), core, replay.now)

    def capacity_per_s(self, name: str, seeds: list[int]) -> float:
        """What a backlogged fleet completes behind least-outstanding routing, in the middle of a run; a mean."""
        return mean(self._completed_per_s(name, seed) for seed in seeds)

    def _completed_per_s(self, name: str, seed: int) -> float:
        workload = self.workload(name, BACKLOGGED_LOAD, seed, BACKLOGGED_S)
        outcome = self.play(workload, self.core("least-outstanding", workload, seed))
        first, last = 0.2 * outcome.ended_at, 0.8 * outcome.ended_at
        ended = [job.finished_at for job in outcome.jobs if job.finished_at is not None]
        return sum(first <= at < last for at in ended) / (last - first)

    def core(self, policy: str, workload: Workload, seed: int) -> Core:
        if policy == CLAIRVOYANT:
            predict(jobs_of(workload), 0.0, Random(0))
            return self._ours(OURS, self._spec(workload.engine, policy, workload, seed))
        if policy.startswith(OURS):
            return self._ours(policy, self._spec(workload.engine, policy, workload, seed))
        return build_peer(policy, self._costs[workload.engine].kv_capacity_tokens, Random(f"policy {seed}"))

    def specs(self, engines: Sequence[str], policy: str, workload: Workload, seed: int) -> list[Other]:
        """Of other engines in the fleet, as far as a policy of this name knows them."""
        return [(name, self._spec(name, policy, workload, seed)) for name in engines]

    def _spec(self, engine: str, policy: str, workload: Workload, seed: int) -> EndpointSpec:
        cost = self._costs[engine]
        if policy != CLAIRVOYANT:
            cost = noisy(cost, Random(f"costs {seed}"))
        limits = workload.limits
        return EndpointSpec(cost=cost, max_batched_tokens=limits.max_batched_tokens, max_sequences=limits.max_sequences)

    def _ours(self, policy: str, spec: EndpointSpec) -> Core:
        return Scheduler(SchedulerConfig(max_queued_requests=1_000_000), read_tuning(policy), usual_spec=spec)


def read_tuning(policy: str) -> Tuning:
    """Of `tokenyard`, or with other constants: `tokenyard/is_fair:0/kv_ceiling:0.8`; raises ValueError."""
    settings = dict(setting.split(":") for setting in policy.split("/")[1:])
    unknown = settings.keys() - set(Tuning.__struct_fields__)
    if unknown:
        raise ValueError(f"there is no constant {min(unknown)}")
    return msgspec.convert(settings, type=Tuning, strict=False)


def noisy(cost: StepCost, rng: Random) -> StepCost:
    """The parameters as a gateway would know them: each off by up to COST_ERROR."""
    names = (
        "t_fixed_ms",
        "ms_per_seq",
        "t_weight_ms",
        "ms_per_token",
        "attn_fixed_ms",
        "ms_per_ctx_token",
        "ms_per_attn_pair",
    )
    return msgspec.structs.replace(
        cost, **{name: getattr(cost, name) * rng.uniform(1 - COST_ERROR, 1 + COST_ERROR) for name in names}
    )

"""One run: a workload, a policy's name, a seed → what happened."""

import json
from pathlib import Path
from random import Random

import msgspec

from workers.engines.costs import load_profiles
from workers.scheduling.endpoint import EndpointSpec
from workers.scheduling.interface import Command, Core, SchedulerConfig
from workers.scheduling.latency.step_cost import StepCost
from workers.scheduling.peers.registry import build_peer
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
LENGTH_SIGMA = 0.4
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

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or default_folder()
        self._costs = load_costs(self.folder)

    def engines(self) -> list[str]:
        return list(self._costs)

    def workload(self, name: str, load: float, seed: int, duration_s: float | None = None) -> Workload:
        recipe = WORKLOADS[name]
        rng = Random(f"{name} {seed}")
        rate_per_s = load * recipe.unit_per_s
        duration_s = recipe.duration_s if duration_s is None else duration_s
        setting = Setting(self.folder, self._costs[recipe.engine], load, rate_per_s, duration_s, rng)
        workload = recipe.build(setting)
        predict(jobs_of(workload), LENGTH_SIGMA, Random(f"lengths {seed}"))
        return workload

    def play(
        self, workload: Workload, core: Core, config: ReplayConfig | None = None, fleet: int = FLEET_SIZE
    ) -> Outcome:
        cost = self._costs[workload.engine]
        engines = [Engine(f"e{number}", cost, workload.limits) for number in range(fleet)]
        replay = Replay(core, engines, workload, config or ReplayConfig())
        replay.run()
        return Outcome(workload, jobs_of(workload), core, replay.now)

    def core(self, policy: str, workload: Workload, seed: int) -> Core:
        cost = self._costs[workload.engine]
        if policy.startswith(OURS):
            known = noisy(cost, Random(f"costs {seed}"))
            return self._ours(policy, EndpointSpec(cost=known, max_batched_tokens=workload.limits.max_batched_tokens))
        return build_peer(policy, cost.kv_capacity_tokens, Random(f"policy {seed}"))

    def _ours(self, policy: str, spec: EndpointSpec) -> Core:
        """`tokenyard`, or with other constants: `tokenyard/is_fair:0/kv_ceiling:0.8`."""
        settings = dict(setting.split(":") for setting in policy.split("/")[1:])
        tuning = msgspec.convert(settings, type=Tuning, strict=False)
        return Ours(SchedulerConfig(max_queued_requests=1_000_000), tuning, spec)


class Ours(Scheduler):
    """Knows the engines' costs as well as a gateway would."""

    def __init__(self, config: SchedulerConfig, tuning: Tuning, spec: EndpointSpec) -> None:
        super().__init__(config, tuning)
        self._spec = spec

    def endpoint_updated(
        self,
        endpoint_id: str,
        version_id: str,
        max_running: int,
        now: float,
        *,
        is_draining: bool,
        spec: EndpointSpec | None = None,
    ) -> list[Command]:
        del spec
        return super().endpoint_updated(
            endpoint_id, version_id, max_running, now, is_draining=is_draining, spec=self._spec
        )


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

"""What every workload is made of."""

from pathlib import Path
from random import Random

from msgspec import Struct, field

from workers.scheduling.latency.step_cost import StepCost
from workers.simulator.engine_limits import EngineLimits
from workers.simulator.job import Job


class FollowUp(Struct, frozen=True):
    """A call of a session: it comes `gap_s` after the end of the one before."""

    job: Job
    gap_s: float


class Session(Struct, frozen=True):
    """Calls that depend on each other; `starts_at` is when the first comes. The first gap is 0."""

    number: int
    starts_at: float
    calls: list[FollowUp]
    budget_s: float | None = None


class Workload(Struct, frozen=True, kw_only=True):
    """`jobs` come at their own times, sessions' calls one after the other."""

    name: str
    load: float
    engine: str
    limits: EngineLimits
    jobs: list[Job] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)


class Setting(Struct, frozen=True):
    """What a workload is built from. `cost` is that of the fleet's engines; `rate_per_s` is of requests.

    `begin` is the share of each trace that is left out at its start: 0.5 plays what no run from the start gets to.
    """

    folder: Path
    cost: StepCost
    load: float
    rate_per_s: float
    duration_s: float
    rng: Random
    begin: float = 0.0


def prefill_s(cost: StepCost, limits: EngineLimits, prompt_tokens: int) -> float:
    """An uncached prompt alone on an idle engine."""
    done, total_s = 0, 0.0
    while done < prompt_tokens:
        chunk = min(limits.max_batched_tokens, prompt_tokens - done)
        total_s += cost.step_s(chunk, 1, 0, chunk * (done + chunk / 2))
        done += chunk
    return total_s


def decode_s(cost: StepCost, prompt_tokens: int, output_tokens: int) -> float:
    """The tokens after the first, alone on an idle engine."""
    return (output_tokens - 1) * cost.step_s(1, 1, prompt_tokens + output_tokens / 2, 0)


def poisson(rate_per_s: float, until_s: float, rng: Random) -> list[float]:
    times: list[float] = []
    now = rng.expovariate(rate_per_s)
    while now < until_s:
        times.append(now)
        now += rng.expovariate(rate_per_s)
    return times


def coarse(units: tuple[int, ...], per_block: int) -> tuple[int, ...]:
    """The gateway's blocks: each is named by the last unit in it, which stands for all before."""
    return units[per_block - 1 :: per_block]


def predict(jobs: list[Job], sigma: float, rng: Random) -> None:
    """Gives every job a predicted length with lognormal noise."""
    for job in jobs:
        job.predicted_tokens = max(1.0, job.output_tokens * rng.lognormvariate(0.0, sigma))

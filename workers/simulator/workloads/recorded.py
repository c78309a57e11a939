"""Recorded agent sessions as calls with prefixes: shared by the workloads that replay them."""

from pathlib import Path

from workers.simulator.job import Job
from workers.simulator.kv_cache import BLOCK_TOKENS
from workers.simulator.traces import SESSION_BLOCK_TOKENS, TraceCall, TraceSession, read_sessions
from workers.simulator.workloads.workload import coarse

CONTEXT_DIVISOR = 8
UNITS_PER_BLOCK = 8
SESSION_STRIDE = 1 << 32
MIN_PROMPT_TOKENS = 16


class Recorded:
    """One recorded session. `is_long` ones have contexts beyond the model's, which are divided."""

    def __init__(self, session: TraceSession, *, is_long: bool) -> None:
        self.calls = session.calls
        self._is_long = is_long

    def gap_s(self, index: int) -> float:
        """Between the end of the call before and this one."""
        if index == 0:
            return 0.0
        before = self.calls[index - 1]
        return max(0.0, self.calls[index].t - before.t - before.api)

    def job(self, number: int, index: int, salt: int) -> Job:
        """`salt` keeps replays of one session apart where its block numbers are its own."""
        call = self.calls[index]
        prompt_tokens = call.input // CONTEXT_DIVISOR if self._is_long else call.input
        job = Job(number, 0.0, max(MIN_PROMPT_TOKENS, prompt_tokens), max(1, call.out))
        units = self._units(call, salt)[: job.prompt_tokens // BLOCK_TOKENS]
        job.units = units
        job.blocks = coarse(units, UNITS_PER_BLOCK)
        job.block_tokens = BLOCK_TOKENS * UNITS_PER_BLOCK
        return job

    def _units(self, call: TraceCall, salt: int) -> tuple[int, ...]:
        numbers = [number for first, length in call.h for number in range(first, first + length)]
        if self._is_long:
            per_unit = BLOCK_TOKENS * CONTEXT_DIVISOR // SESSION_BLOCK_TOKENS
            base = (salt + 1) * SESSION_STRIDE
            return tuple(base + number for number in numbers[per_unit - 1 :: per_unit])
        parts = SESSION_BLOCK_TOKENS // BLOCK_TOKENS
        return tuple(number * parts + part for number in numbers for part in range(parts))


def read_recorded(folder: Path, begin: float = 0.0) -> list[Recorded]:
    """Without so large a share of either recording's sessions."""
    coding = read_sessions(folder / "claude_code_sessions.jsonl.gz")
    agents = read_sessions(folder / "lmcache_agents.jsonl.gz")
    return [Recorded(session, is_long=True) for session in coding[int(begin * len(coding)) :]] + [
        Recorded(session, is_long=False) for session in agents[int(begin * len(agents)) :]
    ]

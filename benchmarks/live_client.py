"""Plays a workload's jobs as clients of a gateway, and writes down in each what its client saw."""

import asyncio
from hashlib import shake_128

import msgspec

from benchmarks.live_course import Course
from workers.simulator.job import Job
from workers.simulator.workloads.workload import Session

READ_BYTES = 256 * 1024
LEDGER_WITHIN_S = 30.0


class Ledger(msgspec.Struct):
    """What a fake engine says of one request."""

    request_id: str
    cached_tokens: int
    completion_tokens: int


class _Ledgers(msgspec.Struct):
    requests: list[Ledger]


class Player:
    """Times in jobs are modelled seconds, `time_scale` seconds of the wall each."""

    def __init__(
        self, port: int, model: str, engine_ports: list[int], time_scale: float, course: Course, *, unit_tokens: int
    ) -> None:
        self._port = port
        self._model = model
        self._engine_ports = engine_ports
        self._time_scale = time_scale
        self._course = course
        self._unit_tokens = unit_tokens
        self._began_at = 0.0

    async def play(self, jobs: list[Job], sessions: list[Session], within_s: float) -> float:
        """The modelled time at which the last has ended, or at which `within_s` of the wall were over."""
        self._began_at = asyncio.get_running_loop().time()
        telling = asyncio.create_task(self._course.tell())
        try:
            async with asyncio.timeout(within_s):
                await asyncio.gather(*map(self._ask, jobs), *map(self._follow, sessions))
        except TimeoutError:
            pass  # what has not ended by then stays as it is
        finally:
            telling.cancel()
        ended_at = self._now()
        await self._note_all(jobs + [call.job for session in sessions for call in session.calls])
        return ended_at

    async def _note_all(self, jobs: list[Job]) -> None:
        by_id = {f"job-{job.number}": job for job in jobs}
        for port in self._engine_ports:
            for entry in await self._ledger(port):
                self._note(by_id, entry, port)

    def _now(self) -> float:
        return (asyncio.get_running_loop().time() - self._began_at) / self._time_scale

    async def _follow(self, session: Session) -> None:
        """One call after the other, as long as they are answered: a workflow that lost one is lost."""
        at = session.starts_at
        head = "" if session.budget_s is None else self._workflow_head(session.number, session.budget_s)
        for number, call in enumerate(session.calls, start=1):
            call.job.arrived_at = at + call.gap_s
            await self._ask(call.job, head)
            if call.job.finished_at is None:
                self._course.ended(len(session.calls) - number)
                return
            at = call.job.finished_at

    def _workflow_head(self, number: int, budget_s: float) -> str:
        deadline_ms = round(1000 * budget_s * self._time_scale)
        return f"X-Workflow-Id: w{number}\r\nX-Workflow-Deadline-Ms: {deadline_ms}\r\n"

    async def _ask(self, job: Job, head: str = "") -> None:
        await asyncio.sleep((job.arrived_at - self._now()) * self._time_scale)
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            job.arrived_at = self._now()
            writer.write(self._request(job, head))
            await self._read(job, reader)
            self._course.ended()
        finally:
            writer.close()

    async def _read(self, job: Job, reader: asyncio.StreamReader) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        is_refused = not head.startswith(b"HTTP/1.1 200")
        last = b""
        while piece := await reader.read(READ_BYTES):
            if job.first_token_at is None and not is_refused:
                job.first_token_at = self._now()
            last = (last + piece)[-200:]
        job.is_refused = is_refused
        if b"[DONE]" in last and b'"error"' not in last:
            job.finished_at = self._now()

    def _request(self, job: Job, more_head: str) -> bytes:
        body = msgspec.json.encode(
            {
                "model": self._model,
                "prompt": prompt_of(job, self._unit_tokens),
                "stream": True,
                "temperature": 0,
                "vllm_xargs": {"output_tokens": job.output_tokens},
            }
        )
        if job.ttft_slo_s:
            limits_ms = [round(1000 * limit_s * self._time_scale) for limit_s in (job.ttft_slo_s, job.tpot_slo_s)]
            more_head += f"X-Slo-Ttft-Ms: {limits_ms[0]}\r\nX-Slo-Tpot-Ms: {limits_ms[1]}\r\n"
        head = (
            f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {job.tenant}\r\n"
            f"Content-Type: application/json\r\nConnection: close\r\nX-Request-Id: job-{job.number}\r\n"
            f"{more_head}Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    async def _ledger(self, port: int) -> list[Ledger]:
        async with asyncio.timeout(LEDGER_WITHIN_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /fake/requests HTTP/1.1\r\nHost: e\r\nConnection: close\r\n\r\n")
            answer = await reader.read(-1)
            writer.close()
        return msgspec.json.decode(answer.partition(b"\r\n\r\n")[2], type=_Ledgers).requests

    def _note(self, by_id: dict[str, Job], entry: Ledger, port: int) -> None:
        job = by_id.get(entry.request_id.removeprefix("cmpl-"))
        if job is not None:
            job.endpoint = f"e{port}"
            job.hit_tokens = entry.cached_tokens
            job.generated = entry.completion_tokens


def prompt_of(job: Job, unit_tokens: int) -> str:
    """As many words as it has tokens, four bytes each; those of a shared unit are the same in every prompt with it."""
    words: list[str] = []
    for unit in job.units:
        words += words_of_unit(unit, unit_tokens)
    return " ".join(words + [f"j{job.number}"] * (job.prompt_tokens - len(words)))


def words_of_unit(unit: int, count: int) -> list[str]:
    letters = shake_128(str(unit).encode()).hexdigest(2 * count)
    return [letters[3 * index : 3 * index + 3] for index in range(count)]

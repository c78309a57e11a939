"""The engine as the HTTP side sees it: takes calls, keeps the ledger, and fails as it is told to."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from workers.engines.fake.calls import GenerationCall
from workers.engines.fake.chunks import DONE, error_event
from workers.engines.fake.clockwork import Clockwork
from workers.engines.fake.embedding import Embedding
from workers.engines.fake.errors import APIError, engine_busy, engine_dead, internal_error
from workers.engines.fake.exposition import EngineMetrics
from workers.engines.fake.faults import ErrorShare, Faults
from workers.engines.fake.generation import Choice, Generation, Reply
from workers.engines.fake.inputs import EmbeddingCall
from workers.engines.fake.kv_events import BlockTokens, KVEventPublisher, KVEventsConfig
from workers.engines.fake.ledger import Ledger, LedgerEntry
from workers.engines.fake.model.continuous_batching import BatchLimits, ContinuousBatching
from workers.engines.fake.model.kv_blocks import KVBlocks
from workers.engines.fake.model.sequence import Sequence
from workers.engines.fake.plan import plan_answer
from workers.engines.fake.served import Served
from workers.engines.fake.words import TokenIds, block_hashes, seeded
from workers.engines.fake.writers import open_writer
from workers.scheduling.latency.step_cost import StepCost

_SECONDS_TO_ANSWER = 0.1
_SECONDS_FROM_CORE_TO_PROCESS_DEATH = 1.0


class EngineOptions(Struct, frozen=True, kw_only=True):
    """`cost` is already scaled to the wall clock. `max_queued_requests` None means no limit."""

    served: Served
    cost: StepCost
    limits: BatchLimits = field(default_factory=BatchLimits)
    kv_blocks: int
    is_caching: bool = True
    can_sleep: bool = False
    is_priority_scheduling: bool = True
    max_queued_requests: int | None = None
    mean_output_tokens: int = 128
    embedding_dimensions: int = 384
    history: int = 20_000
    kv_events: KVEventsConfig | None = None


Work = Generation | Embedding


class FakeEngine:
    """`wall_clock` gives Unix seconds, for what answers show; time passes by the loop's clock. `die` ends all."""

    def __init__(
        self,
        options: EngineOptions,
        loop: asyncio.AbstractEventLoop,
        wall_clock: Callable[[], float],
        die: Callable[[int], None],
    ) -> None:
        self.options = options
        self.served = options.served
        self.ids = TokenIds()
        self.faults = Faults()
        self.ledger = Ledger(options.history)
        self.metrics = EngineMetrics(options.served.name, wall_clock())
        self.is_dead = False
        self.is_asleep = False
        kv = KVBlocks(options.kv_blocks, is_caching=options.is_caching)
        self.batch = ContinuousBatching(options.cost, options.limits, kv)
        self._clockwork = Clockwork(self.batch, self.metrics, loop)
        self._clockwork.after_turn = self._after_turn
        self._publisher = self._build_publisher(options.kv_events)
        self._loop = loop
        self._wall_clock = wall_clock
        self._die = die
        self._error_share = ErrorShare()
        self._crash_at_tokens: int | None = None
        self._stale_metrics: bytes | None = None
        self._ledger_numbers: dict[Work, int] = {}

    @property
    def load(self) -> int:
        """Requests being answered, as /load counts them."""
        return len(self._ledger_numbers)

    def generate(self, call: GenerationCall, request_id: str, path: str, reply: Reply) -> Generation:
        """Raises APIError when the request is not taken."""
        writer = open_writer(call, request_id, self.served.name, int(self._wall_clock()))
        generation = Generation(call, writer, reply, self._ended)
        generation.reset_after_tokens = self.faults.reset_after_tokens
        choices = self._choices(call)
        entry = self._entry(request_id, path, call.prompts, call.priority)
        if not self._admit(entry, len(choices), call, reply):
            return generation
        for choice in choices:
            generation.add(choice)
        self._start(generation, entry, [choice.sequence for choice in choices])
        generation.begin()
        return generation

    def embed(
        self, call: EmbeddingCall, request_id: str, path: str, reply: Reply, answer: Callable[[], bytes]
    ) -> Embedding:
        """Raises APIError when the request is not taken. `answer` makes the body once all inputs are read."""
        entry = self._entry(request_id, path, call.inputs, call.priority)
        self._admit(entry, len(call.inputs), None, reply)
        sequences = [
            Sequence(prompt_tokens=len(tokens), output_tokens=0, priority=self._priority(call.priority))
            for tokens in call.inputs
        ]
        embedding = Embedding(sequences, reply, answer, self._ended)
        self._start(embedding, entry, sequences)
        return embedding

    def set_faults(self, faults: Faults) -> None:
        self._stale_metrics = self.metrics_text() if faults.metrics_are_stale else None
        if faults.crash_after_tokens is None:
            self._crash_at_tokens = None
        elif faults.crash_after_tokens != self.faults.crash_after_tokens:
            self._crash_at_tokens = self.metrics.generation_tokens_total + faults.crash_after_tokens
        self.faults = faults
        if self._publisher is not None:
            self._publisher.is_silent, self._publisher.loses_next = (
                faults.kv_events_are_silent,
                faults.kv_events_to_lose,
            )
        self._clockwork.hang(is_hanging=faults.is_hanging or self.is_asleep)
        if faults.freeze_for_s:
            self._loop.call_later(_SECONDS_TO_ANSWER, time.sleep, faults.freeze_for_s)

    def lie_down(self, *, is_asleep: bool) -> None:
        """Asleep it takes requests and moves none of them on, as vLLM does."""
        self.is_asleep = is_asleep
        self._clockwork.hang(is_hanging=self.faults.is_hanging or is_asleep)

    def metrics_text(self) -> bytes:
        return self._stale_metrics or self.metrics.render(self.batch)

    def forget_cache(self) -> None:
        self.batch.kv.forget_idle()
        self._publish_news()

    def close(self) -> None:
        if self._publisher is not None:
            self._publisher.close()

    def _build_publisher(self, config: KVEventsConfig | None) -> KVEventPublisher | None:
        if config is None:
            return None
        self.batch.kv.news = []
        return KVEventPublisher(config, BlockTokens(self.options.limits.block_size_tokens))

    def _after_turn(self) -> None:
        self._publish_news()
        self._crash_if_due()

    def _publish_news(self) -> None:
        if self._publisher is not None and self.batch.kv.news:
            news, self.batch.kv.news = self.batch.kv.news, []
            self._publisher.publish(news)

    # taking a request

    def _entry(self, request_id: str, path: str, prompts: list[list[str]], priority: int) -> LedgerEntry:
        return LedgerEntry(
            request_id=request_id,
            path=path,
            arrived_at=self._wall_clock(),
            prompt_tokens=sum(map(len, prompts)),
            priority=priority,
        )

    def _admit(self, entry: LedgerEntry, sequences: int, call: GenerationCall | None, reply: Reply) -> bool:
        """False when it was refused inside a stream; otherwise a refusal is raised."""
        error = self._refusal(sequences)
        if error is None:
            return True
        outcome = "refused" if error.status == engine_busy().status else "error"
        number = self.ledger.open(entry)
        self.ledger.close(number, outcome=outcome, cached_tokens=0, completion_tokens=0, ended_at=self._wall_clock())
        if outcome == "refused" and call and call.is_stream and self.faults.queue_full_in_stream:
            reply.start_stream()
            reply.send(error_event(error))
            reply.send(DONE)
            reply.end_stream()
            return False
        raise error

    def _refusal(self, sequences: int) -> APIError | None:
        if self.is_dead:
            return engine_dead()
        if self._error_share.is_next(self.faults.error_rate):
            return internal_error()
        limit = self.options.max_queued_requests
        if limit is not None and self.batch.waiting_count + sequences > limit + self._free_slots():
            self.metrics.admission_rejections_total += 1
            return engine_busy()
        return None

    def _free_slots(self) -> int:
        """Requests that have just arrived count as waiting until the next step takes them."""
        return max(0, self.options.limits.max_sequences - self.batch.running_count)

    def _choices(self, call: GenerationCall) -> list[Choice]:
        return [
            self._choice(call, prompt, prompt_index * call.n + number, number)
            for prompt_index, prompt in enumerate(call.prompts)
            for number in range(call.n)
        ]

    def _choice(self, call: GenerationCall, prompt: list[str], index: int, number: int) -> Choice:
        way = f"{call.seed} {call.temperature} {number if call.temperature else 0}"
        plan = plan_answer(
            seeded("answer", *prompt[: len(prompt) - call.begun_tokens], way),
            [way, *prompt],
            limit_tokens=call.limit_tokens(prompt, self.served),
            mean_tokens=self.options.mean_output_tokens,
            min_tokens=call.min_tokens,
            ignores_eos=call.ignores_eos,
            stops=call.stops,
            keeps_stop=call.keeps_stop,
            opening="" if call.is_chat and not call.begun_tokens else " ",
            begun_tokens=call.begun_tokens,
        )
        size = self.options.limits.block_size_tokens
        hashes = block_hashes([*prompt, *plan.tokens], size, call.cache_salt)
        if self._publisher is not None:
            tokens = [self.ids.encode(token) for token in (*prompt, *plan.tokens)]
            self._publisher.tokens.note(hashes, tokens, call.cache_salt)
        sequence = Sequence(
            prompt_tokens=len(prompt),
            output_tokens=len(plan.tokens),
            block_hashes=hashes,
            priority=self._priority(call.priority),
        )
        full_block_tokens = len(prompt) // size * size
        return Choice(index=index, plan=plan, sequence=sequence, full_block_tokens=full_block_tokens)

    def _priority(self, priority: int) -> int:
        return priority if self.options.is_priority_scheduling else 0

    def _start(self, work: Work, entry: LedgerEntry, sequences: list[Sequence]) -> None:
        self._ledger_numbers[work] = self.ledger.open(entry)
        for sequence in sequences:
            self._clockwork.submit(sequence, work)

    def list_head(self, prefix: str, request_id: str) -> dict[str, Any]:
        """How answers begin that are lists."""
        now = int(self._wall_clock())
        return {"id": f"{prefix}-{request_id}", "object": "list", "created": now, "model": self.served.name}

    # endings

    def _ended(self, work: Work, outcome: str) -> None:
        number = self._ledger_numbers.pop(work)
        sequences = list(work.choices) if isinstance(work, Generation) else work.sequences
        completion_tokens = sum(self.batch.generated_tokens(sequence) for sequence in sequences)
        cached_tokens = work.cached_tokens if isinstance(work, Generation) else 0
        for sequence in sequences:
            self._clockwork.abort(sequence)
        self._publish_news()
        self._count_finish(work, outcome)
        self.ledger.close(
            number,
            outcome=outcome,
            cached_tokens=cached_tokens,
            completion_tokens=completion_tokens,
            ended_at=self._wall_clock(),
        )

    def _count_finish(self, work: Work, outcome: str) -> None:
        if outcome in ("abort", "error"):
            return
        reasons = (
            [choice.plan.finish_reason for choice in work.choices.values()] if isinstance(work, Generation) else []
        )
        for reason in reasons or [outcome]:
            self.metrics.finished_total[reason] += 1

    def _crash_if_due(self) -> None:
        if self._crash_at_tokens is None or self.metrics.generation_tokens_total < self._crash_at_tokens:
            return
        self._crash_at_tokens = None
        if self.faults.crash_mode == "exit":
            self._die(1)
            return
        self.is_dead = True
        for work in list(self._ledger_numbers):
            work.fail(engine_dead())
        self._loop.call_later(_SECONDS_FROM_CORE_TO_PROCESS_DEATH, self._die, 1)

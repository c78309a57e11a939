"""Usage batches of all links, stored together: what comes while a transaction runs waits for the next one.

A commit, and the rows of the sums that many records share, then cost once for all of them. Two are at work, so that one
makes its rows while Postgres works on those of the other. What waits is bounded by what links may have in work.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from apps.usage.services.ingest import Incoming, IngestCounts

AT_WORK = 2
MOST_TOGETHER = 16

Answer = IngestCounts | None
Store = Callable[[Sequence[Incoming]], Awaitable[Sequence[Answer]]]


class UsageInbox:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[tuple[Incoming, asyncio.Future[Answer]]] = deque()
        self._turns: set[asyncio.Task[None]] = set()

    async def take(self, incoming: Incoming) -> Answer:
        """None when it was not stored: without an acknowledgement the agent sends it again."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((incoming, answer))
        if len(self._turns) < AT_WORK:
            turn = asyncio.create_task(self._work())
            self._turns.add(turn)
            turn.add_done_callback(self._turns.discard)
        return await answer

    async def _work(self) -> None:
        while self._waiting:
            together = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_TOGETHER))]
            answers: Sequence[Answer] = [None] * len(together)
            try:
                answers = await self._store([incoming for incoming, _ in together])
            finally:
                for (_, future), answer in zip(together, answers, strict=True):
                    if not future.done():
                        future.set_result(answer)

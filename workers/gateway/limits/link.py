"""Talks to the authority in the background: at once for who waits, soon for news, else to show that it lives."""

import asyncio
import contextlib
import logging
import time
from pathlib import Path
from typing import Protocol

from workers.gateway.limits.admission import Limits
from workers.gateway.limits.authority import Ask, LocalAuthority, Reply
from workers.gateway.limits.ledger import HEARTBEAT_S, TTL_S
from workers.gateway.limits.valkey import AuthorityError, ValkeyAuthority

logger = logging.getLogger(__name__)

# News waits so long at most. Between two messages there is a gap, so that a storm of requests at a limit does not
# become one of messages.
SYNC_S = 0.05
GAP_S = 0.005
GAP_WHILE_WAITING_S = 0.02


class Authority(Protocol):
    error: str  # why it is not the one that it should be

    async def exchange(self, asks: list[Ask], events: list[bytes]) -> Reply:
        """Raises AuthorityError."""

    async def close(self) -> None: ...


class OwnAuthority:
    """Of a gateway that shares its limits with no other; they begin anew with it."""

    error = ""

    def __init__(self, holder: str) -> None:
        self._holder = holder
        self._authority = LocalAuthority(ttl_ms=int(TTL_S * 1000), knows_all=True)

    async def exchange(self, asks: list[Ask], events: list[bytes]) -> Reply:
        del events
        return self._authority.exchange(self._holder, asks, int(time.time() * 1000))

    async def close(self) -> None:
        """There is nothing to close."""


class ToldAuthority:
    """Where the control plane says that limits are shared, as the agent wrote it into a file; else `own`.

    An address that cannot be read is refused: the former one holds, and `error` says so.
    """

    def __init__(self, file: Path, holder: str, own: Authority) -> None:
        self._file = file
        self._holder = holder
        self._own = own
        self._shared: Authority | None = None
        self._url = ""
        self._changed_ns = 0
        self.error = ""

    async def exchange(self, asks: list[Ask], events: list[bytes]) -> Reply:
        """Raises AuthorityError."""
        await self._follow()
        return await (self._shared or self._own).exchange(asks, events)

    async def close(self) -> None:
        await self._own.close()
        if self._shared is not None:
            await self._shared.close()

    async def _follow(self) -> None:
        try:
            changed_ns = self._file.stat().st_mtime_ns
            if changed_ns == self._changed_ns:
                return
            url = self._file.read_bytes().decode(errors="replace").strip()
        except OSError:
            return  # nobody has said anything yet, or what was said holds
        self._changed_ns = changed_ns
        if url == self._url:
            self.error = ""
            return
        try:
            shared = valkey_at(url, self._holder) if url else None
        except ValueError:
            self._refuse()
            return
        former, self._url, self._shared, self.error = self._shared, url, shared, ""
        logger.info("limits are %s", "shared with other gateways" if url else "this gateway's own")
        if former is not None:
            await former.close()

    def _refuse(self) -> None:
        """Without the address, which holds a password, and without the library's words, which repeat parts of it."""
        former = "where they were shared before" if self._shared is not None else "this gateway's own"
        self.error = f"limits.url is no address of a Valkey (redis://, rediss://, unix://); limits are still {former}"
        logger.error("%s", self.error)


def authority_at(url: str, holder: str) -> Authority:
    return valkey_at(url, holder) if url else OwnAuthority(holder)


def valkey_at(url: str, holder: str) -> ValkeyAuthority:
    return ValkeyAuthority(url, holder=holder, ttl_s=TTL_S, warm_s=TTL_S)


class AuthorityLink:
    def __init__(self, limits: Limits, authority: Authority) -> None:
        self._limits = limits
        self._authority = authority
        self._wake = asyncio.Event()
        self._is_failing = False

    async def run(self) -> None:
        self._limits.wake = self._wake.set
        loop = asyncio.get_running_loop()
        while True:
            # Where nothing has a limit there is no news: whoever is the first to have one waits, and wakes this.
            timer = loop.call_later(SYNC_S if self._limits.ledger.accounts else HEARTBEAT_S, self._wake.set)
            await self._wake.wait()
            timer.cancel()
            self._wake.clear()
            try:
                await self._turn()
            except Exception:
                logger.exception("limits: a turn failed")

    async def close(self) -> None:
        """Gives everything back that is not promised to a request."""
        ledger = self._limits.ledger
        ledger.give_all_back()
        with contextlib.suppress(AuthorityError):
            await self._authority.exchange(ledger.asks(time.monotonic()), list(self._limits.events))
        await self._authority.close()

    async def _turn(self) -> None:
        ledger, now = self._limits.ledger, time.monotonic()
        ledger.end_raises(time.time())
        if ledger.is_due(now):
            await self._exchange(now)
            await asyncio.sleep(GAP_WHILE_WAITING_S if ledger.waiters or self._is_failing else GAP_S)
            if ledger.waiters:
                self._wake.set()
        self._refresh_figures()

    async def _exchange(self, sent_at: float) -> None:
        ledger, figures = self._limits.ledger, self._limits.figures
        asks, events = ledger.asks(sent_at), list(self._limits.events)
        figures.exchanges += 1
        try:
            reply = await self._authority.exchange(asks, events)
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody knows what was heard
            figures.failed_exchanges += 1
            self._note_failure(error)
            ledger.failed(asks, time.monotonic())
        else:
            self._is_failing = False
            self._forget_told(events)
            ledger.answered(asks, reply, sent_at=sent_at, now=time.monotonic())

    def _forget_told(self, events: list[bytes]) -> None:
        """The oldest of them may have made room meanwhile."""
        untold = self._limits.events
        for event in events:
            if untold and untold[0] is event:
                untold.popleft()

    def _note_failure(self, error: Exception) -> None:
        """Once: it is asked again many times a second."""
        if not self._is_failing:
            fault = None if isinstance(error, AuthorityError) else error
            logger.warning("limits: nobody can say how much is left: %s", error, exc_info=fault)
        self._is_failing = True

    def _refresh_figures(self) -> None:
        ledger, figures = self._limits.ledger, self._limits.figures
        figures.is_degraded = ledger.has_unknown(time.monotonic())
        figures.degraded_admissions = ledger.degraded_admissions
        figures.waiting = len(ledger.waiters)
        figures.error = self._authority.error

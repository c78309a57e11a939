"""One of the processes, as its parent sees it: started, and started again whenever it ends before it should."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

from workers.gateway.sisters import control

logger = logging.getLogger(__name__)

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0
# Who has served so long is started again at once.
STABLE_AFTER_S = 10.0
# It says something each second. Whoever connected to a silent one gets no answer before it is replaced, which is to be
# within 30 s, start included.
SILENT_AFTER_S = 15.0
_ANSWER_WITHIN_S = 2.0

Hear = Callable[["Child", control.Message], None]


class Child:
    """`told` is what it said last. `changed` is called when it comes up or goes down."""

    def __init__(
        self,
        number: int,
        command: Callable[[int, int], tuple[list[str], Sequence[int]]],
        hear: Hear,
        changed: Callable[["Child"], None],
        monotonic: Callable[[], float],
    ) -> None:
        """`command` makes its command and the descriptors that it inherits, of its number and its control socket."""
        self.number = number
        self.is_up = False
        self.restarts = 0
        self.told: control.Told | None = None
        self.heard_at = monotonic()
        self._ending = asyncio.Event()
        self.down_since = monotonic()
        self._command = command
        self._hear_message = hear
        self._changed = changed
        self._monotonic = monotonic
        self._control: control.Control | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._questions = control.Questions()

    async def keep(self, first_words: Callable[[], Sequence[control.Message]]) -> None:
        """Returns when it has ended and should. `first_words` are told to each new process."""
        wait_s = 0.0
        while True:
            began_at = self._monotonic()
            try:
                await self._run_once(first_words())
            except Exception:
                logger.exception("process %s could not be started", self.number)
            if self.is_ending:
                return
            was_stable = self._monotonic() - began_at >= STABLE_AFTER_S
            wait_s = 0.0 if was_stable else min(2 * wait_s or _FIRST_WAIT_S, _LONGEST_WAIT_S)
            logger.warning("process %s has ended, and is started again", self.number)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._ending.wait()
                    return
            self.restarts += 1

    @property
    def is_ending(self) -> bool:
        return self._ending.is_set()

    def tell(self, message: control.Message) -> None:
        if self._control is not None:
            self._control.tell(message)

    async def ask_page(self, path: str) -> control.Page | None:
        """None when it does not answer, or is not there."""
        if not self.is_up:
            return None
        try:
            page = await self._questions.ask(lambda number: self.tell(control.WantPage(number, path)), _ANSWER_WITHIN_S)
        except TimeoutError:
            return None
        return page if isinstance(page, control.Page) else None

    def will_end(self) -> None:
        """It is not started again."""
        self._ending.set()

    def end(self, number: int = signal.SIGTERM) -> None:
        self.will_end()
        self.signal(number)

    def signal(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def excuse(self, unheard_s: float) -> None:
        """For a time in which the parent itself did not run: that nothing was heard then says nothing."""
        self.heard_at += unheard_s

    def end_if_hung(self) -> None:
        """It is replaced then, as any that has died."""
        silent_s = self._monotonic() - self.heard_at
        if self.is_up and not self.is_ending and silent_s > SILENT_AFTER_S:
            logger.error("process %s has said nothing for %.0f s, and is replaced", self.number, silent_s)
            self.signal(signal.SIGKILL)

    async def _run_once(self, first_words: Sequence[control.Message]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            command, descriptors = self._command(self.number, theirs.fileno())
            self._process = await asyncio.create_subprocess_exec(*command, pass_fds=descriptors)
        if self.is_ending:
            self.signal(signal.SIGTERM)
        self._control = await control.open_control(ours, self._hear)
        for message in first_words:
            self._control.tell(message)
        try:
            await self._control.run()
            await self._process.wait()
        finally:
            self._control.close()
            self._control = None
            self.is_up, self.down_since = False, self._monotonic()
            self._changed(self)
            self.told = None

    def _hear(self, message: control.Message) -> None:
        self.heard_at = self._monotonic()
        if isinstance(message, control.Page):
            self._questions.answered(message.question, message)
            return
        if isinstance(message, control.Told):
            self.told = message
        elif isinstance(message, control.Ready):
            self.is_up = True
            self._changed(self)
        self._hear_message(self, message)

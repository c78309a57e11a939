"""Limits that the processes of one gateway share where there is no Valkey: the parent is their authority."""

from collections.abc import Callable

from workers.gateway.limits.authority import Ask, Reply
from workers.gateway.limits.valkey import TIMEOUT_S, AuthorityError
from workers.gateway.sisters.control import AskLimits, Granted, Message, Questions


class ParentsAuthority:
    """`holder` is this process, and no other ever."""

    error = ""

    def __init__(self, holder: str, tell: Callable[[Message], None], questions: Questions) -> None:
        self._holder = holder
        self._tell = tell
        self._questions = questions

    async def exchange(self, asks: list[Ask], events: list[bytes]) -> Reply:
        """Raises AuthorityError."""
        del events  # there is nobody to fetch them
        try:
            answer = await self._questions.ask(lambda number: self._ask(number, asks), TIMEOUT_S)
        except TimeoutError as error:
            raise AuthorityError("the parent does not answer") from error
        assert isinstance(answer, Granted), "what was asked for"  # noqa: S101 - an invariant
        return answer.reply

    async def close(self) -> None:
        """There is nothing to close."""

    def _ask(self, number: int, asks: list[Ask]) -> None:
        self._tell(AskLimits(number, self._holder, asks))

"""A request's place in the schedule, from its submission until it is given back, once."""

from typing import Literal

from workers.contracts.settlement import Used
from workers.gateway.driving.driver import Driver

PROGRESS_EACH = 64


class Place:
    """What is told of a place that is not held, or no more, is dropped."""

    __slots__ = ("_driver", "_request_id", "progress_due")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._request_id: int | None = None
        self.progress_due = PROGRESS_EACH

    @property
    def is_held(self) -> bool:
        return self._request_id is not None

    def take(self, request_id: int) -> None:
        self._request_id = request_id

    def lose(self) -> None:
        """The scheduler has forgotten it."""
        self._request_id = None

    def first_token(self, at: float | None = None) -> None:
        if self._request_id is not None:
            self._driver.first_token(self._request_id, at)

    def progress(self, output_tokens: int) -> None:
        """Due each time that the answer is half as long again, so that the longest costs no more than a few calls."""
        self.progress_due = output_tokens + max(PROGRESS_EACH, output_tokens // 2)
        if self._request_id is not None:
            self._driver.progress(self._request_id, output_tokens)

    def wait_again(self, generated_tokens: int = 0, retry_after_s: float | None = None) -> None:
        """The attempt has failed, and another may follow: from the beginning, or after so many tokens.

        `retry_after_s` is what the engine itself asked for.
        """
        if self._request_id is not None:
            self._driver.failed(
                self._request_id,
                may_retry=True,
                generated_tokens=generated_tokens,
                retry_after_s=retry_after_s,
            )

    def give_back(
        self, how: Literal["finished", "failed", "withdrawn"], used: Used, retry_after_s: float | None = None
    ) -> None:
        request_id, self._request_id = self._request_id, None
        if request_id is None:
            return
        if how == "failed":
            self._driver.failed(request_id, may_retry=False, used=used, retry_after_s=retry_after_s)
        elif how == "finished":
            self._driver.finished(request_id, used)
        else:
            self._driver.withdrawn(request_id, used)

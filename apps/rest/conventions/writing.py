"""What every write of the REST API does alike: If-Match, Idempotency-Key and `?dry_run=1`, in one transaction.

A view says nothing of it. Its handler runs as always; what it did is kept, compared, or taken back.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Model
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.errors import DomainError, InvalidInputError
from apps.rest.policies.conditions import ANY, matches
from apps.rest.policies.diffing import differences, without_shown_once
from apps.rest.policies.idempotency import key_problem
from apps.rest.services.answers import Answer, Claim, claim_key, keep_answer

Handler = Callable[[], Response]
REPLACES = frozenset({"PUT", "PATCH", "DELETE"})
DRY_RUN = "dry_run"
_KEPT_HEADERS = ("ETag", "Location")
_WORDS = {"1": True, "true": True, "0": False, "false": False}


class ChangedMeanwhileError(DomainError):
    code = "changed_meanwhile"
    status = 412


class ConditionRequiredError(DomainError):
    code = "if_match_required"
    status = 428


class Writes:
    """One write of one view. `current` gives what GET would show at the same address, None where there is no GET."""

    def __init__(
        self,
        request: Request,
        *,
        asker: str,
        current: Callable[[], Response | None],
        now: Any,
        describes_itself: bool = False,
    ) -> None:
        self._request = request
        self._asker = asker
        self._current = current
        self._now = now
        self._describes_itself = describes_itself
        self.is_dry_run = wants_dry_run(request)

    def run(self, handler: Handler, changes: Callable[[], list[Any]]) -> Response:
        """`changes` says what has been noted of the handler's doings, for who only wants to know."""
        with transaction.atomic():
            claim, kept = self._claim()
            if kept is not None:
                return _replayed(kept)
            before = self._check_condition()
            if self.is_dry_run:
                return self._tried(handler, before, changes)
            response = handler()
            if response.status_code >= 300:  # noqa: PLR2004 - a refusal that was not raised
                transaction.set_rollback(True)
            elif claim is not None:
                keep_answer(claim, _answer_of(response))
            return response

    def _claim(self) -> tuple[Claim | None, Answer | None]:
        key = self._request.headers.get("Idempotency-Key")
        if key is not None and (problem := key_problem(key)):
            raise InvalidInputError(problem, fields={"Idempotency-Key": problem})
        if key is None or self.is_dry_run:
            return None, None
        request = self._request
        return claim_key(
            key=key,
            asker=self._asker,
            method=request.method or "",
            path=request.get_full_path(),
            body=msgspec.json.encode(request.data, order="sorted"),
            now=self._now,
        )

    def _check_condition(self) -> Response | None:
        """What there was before, with its row locked until the end, so that nobody changes it in between."""
        header = self._request.headers.get("If-Match")
        if header is None:
            if settings.API_REQUIRES_IF_MATCH and self._request.method in REPLACES:
                raise ConditionRequiredError("say what you change: If-Match with its ETag, or * for whatever it is")
            return self._current() if self.is_dry_run else None
        if header.strip() == ANY and (there := self._current()) is None:
            return there  # the handler itself finds out whether there is something
        _lock(self._current(), self._request.path)
        before = self._current()
        if not matches(header, before["ETag"] if before is not None else ""):
            raise ChangedMeanwhileError("it is not what you have seen: get it again, and look what has changed")
        return before

    def _tried(self, handler: Handler, before: Response | None, changes: Callable[[], list[Any]]) -> Response:
        response = handler()
        if self._describes_itself:
            transaction.set_rollback(True)
            return response
        was = before.data if before is not None else None
        becomes = without_shown_once(response.data)
        transaction.set_rollback(True)
        shown = {"before": was, "after": becomes, "diff": differences(was, becomes), "changes": changes()}
        return Response({"dry_run": True, "would_answer": response.status_code} | shown)


def wants_dry_run(request: Request) -> bool:
    text = request.query_params.get(DRY_RUN, "0").lower()
    if text not in _WORDS:
        raise InvalidInputError("dry_run is 1 or 0", fields={DRY_RUN: "is 1 or 0"})
    return _WORDS[text]


def _lock(shown: Response | None, path: str) -> None:
    """The row behind an answer, where its serializer says which; else every request for the address waits in line."""
    instance = getattr(getattr(getattr(shown, "data", None), "serializer", None), "instance", None)
    if isinstance(instance, Model) and instance.pk is not None:
        type(instance)._base_manager.select_for_update(of=("self",)).filter(pk=instance.pk).first()  # noqa: SLF001
    else:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [path])


def _answer_of(response: Response) -> Answer:
    headers = {name: response[name] for name in _KEPT_HEADERS if name in response}
    return Answer(status=response.status_code, body=response.data, headers=headers)


def _replayed(kept: Answer) -> Response:
    return Response(kept.body, status=kept.status, headers=kept.headers | {"Idempotency-Replayed": "true"})

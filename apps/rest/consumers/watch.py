"""`GET <any list>?watch=1`: what is there, then each change of it, as server-sent events, until the client goes.

An event is made of the list itself, asked for the rows that changed: so a watcher sees what the list would show, and
no more, also after roles change. What is not in the list any more is DELETED.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, ParamSpec, TypeVar

import msgspec
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import close_old_connections

from apps.common.problems import CONTENT_TYPE, problem
from apps.common.rows import rows_visible
from apps.rest.consumers import streams
from apps.rest.consumers.feed import ChangeFeed
from apps.rest.consumers.lists import Listed, Refusal, Respond, ask, header_of, query_of
from apps.rest.policies.kinds import KINDS
from apps.rest.policies.positions import Position, read_position
from apps.rest.selectors.changes import Noted, get_newest_position, is_forgotten, list_changes, list_kinds_changed

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
P = ParamSpec("P")
R = TypeVar("R")

HEARTBEAT_S = 10.0
LONGEST_S = 3600.0
BATCH = 100
MOST_KNOWN = 20_000
RETRY_MS = (500, 3000)  # a client's; spread, so that they do not all come back at once
_PREFIX = "/api/v1/"
# 429, and what a control plane without its database answers.
_PASSING = {429, 500, 502, 503, 504}

_threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="watch")


def is_watch(scope: Mapping[str, Any]) -> bool:
    if scope["method"] != "GET" or not scope["path"].startswith(_PREFIX):
        return False
    return query_of(scope).get("watch", "0").lower() in {"1", "true"}


class WatchApp:
    """The ASGI application; one feed per process. `respond` answers a request as Django does."""

    def __init__(self, respond: Respond, random: Random) -> None:
        self._respond = respond
        self._random = random
        self._feed = ChangeFeed(_look)
        self._watchers = 0
        self._by_person: Counter[str] = Counter()
        self._is_closing = False

    def stop(self) -> None:
        """Every stream ends soon; their clients come back to another process, or this one's successor."""
        self._is_closing = True
        self._feed.wake_all()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if self._watchers >= settings.API_MOST_WATCHERS or self._is_closing:
            await _refuse(send, _problem(503, "busy", "too many watch already; come back later"))
            return
        self._watchers += 1
        try:
            await self._serve(scope, receive, send)
        finally:
            self._watchers -= 1

    async def _serve(self, scope: Message, receive: Receive, send: Send) -> None:
        begun = await self._begin(scope)
        if isinstance(begun, Refusal):
            await _refuse(send, begun)
            return
        if self._by_person[begun.person] >= settings.API_MOST_WATCHERS_EACH:  # or one would keep out all others
            await _refuse(
                send, _problem(429, "too_many_watchers", "you watch too much at once; end another watch first")
            )
            return
        self._by_person[begun.person] += 1
        try:
            await self._stream(scope, begun, receive, send)
        finally:
            self._by_person[begun.person] -= 1
            self._by_person += Counter()  # forgets who has none

    async def _stream(self, scope: Message, begun: Listed, receive: Receive, send: Send) -> None:
        stream = Watch(self._respond, scope, begun, lambda: self._is_closing)
        async with self._feed.watching(begun.kind) as news:
            running = asyncio.create_task(stream.run(send, news, self._random.randint(*RETRY_MS)))
            leaving = asyncio.create_task(_gone(receive))
            await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
            for task in (running, leaving):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, OSError):
                    await task

    async def _begin(self, scope: Message) -> Listed | Refusal:
        """The list as it is now, if it can be watched, and from where the client wants to."""
        since = header_of(scope, b"last-event-id") or query_of(scope).get("resource_version", "")
        if since and read_position(since) is None:
            return _problem(400, "invalid_input", "resource_version is none that a list or an event has named")
        try:
            listed = await _in_thread(ask, self._respond, scope, {})
            if isinstance(listed, Listed) and listed.kind not in KINDS:
                return _problem(400, "invalid_input", "this cannot be watched; lists of things with an id can")
            position = read_position(since)
            if position is not None and await _in_thread(is_forgotten, position):
                return _problem(
                    410, "gone", "what changed since then is no longer known; list again and watch from there"
                )
        except DatabaseError:
            return _problem(503, "unavailable", "the database is not available; try again")
        return listed


class Watch:
    """One client's stream. `known` are the ids it holds; None when that is not known, as after it was cut off."""

    def __init__(self, respond: Respond, scope: Message, begun: Listed, is_closing: Callable[[], bool]) -> None:
        self._respond = respond
        self._scope = scope
        self._listed = begun
        self._is_closing = is_closing
        since = header_of(scope, b"last-event-id") or query_of(scope).get("resource_version", "")
        self._since = read_position(since)
        self._position = self._since or read_position(begun.resource_version) or Position(0, 0)
        self._known: set[str] | None = None

    async def run(self, send: Send, news: asyncio.Event, retry_ms: int) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": [*headers, (b"x-accel-buffering", b"no")]})
        await _write(send, streams.retry_after(retry_ms))
        try:
            async with asyncio.timeout(LONGEST_S):
                await self._tell(send, news)
        except TimeoutError:
            pass
        except DatabaseError as error:
            log.warning("a watch ends", extra={"error": str(error)})
        await send({"type": "http.response.body", "body": b""})

    async def _tell(self, send: Send, news: asyncio.Event) -> None:
        if self._since is None and not await self._tell_what_there_is(send):
            return
        while not self._is_closing():
            news.clear()
            newest = await _in_thread(get_newest_position)
            changes = await _in_thread(self._read_changes)
            if changes and not await self._tell_changes(send, changes):
                return
            if len(changes) < BATCH:
                self._position = max(self._position, newest)
                if not await self._wait(send, news):
                    return

    async def _tell_what_there_is(self, send: Send) -> bool:
        """False when not all of it could be told: without the bookmark the client begins again."""
        listed: Listed | Refusal = self._listed
        self._known = set()
        while isinstance(listed, Listed):
            for row in listed.page.results:
                self._hold(row["id"])
                await _write(send, streams.event_of(streams.ADDED, row))
            if not listed.cursor:
                await _write(send, streams.event_of(streams.BOOKMARK, {}, self._position))
                return True
            listed = await self._ask({"cursor": listed.cursor})
        return await _refused(send, listed)

    async def _wait(self, send: Send, news: asyncio.Event) -> bool:
        """Until there is news; meanwhile it is looked now and then whether the client still may look."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_S):
                    await news.wait()
                return True
            listed = await self._ask({"page_size": "1"})
            if isinstance(listed, Refusal):
                return await _refused(send, listed)
            await _write(send, streams.HEARTBEAT + streams.event_of(streams.BOOKMARK, {}, self._position))
            if news.is_set() or self._is_closing():
                return True

    def _read_changes(self) -> Sequence[Noted]:
        with rows_visible(self._listed.visible):
            return list_changes(kind=self._listed.kind, after=self._position, limit=BATCH)

    async def _tell_changes(self, send: Send, changes: Sequence[Noted]) -> bool:
        """False when the client may not look any more. Of several changes of a row its newest state is told, once."""
        last = {str(change.object_id): change for change in changes}
        listed = await self._ask({"id": ",".join(last), "page_size": str(BATCH)})
        if isinstance(listed, Refusal):
            return await _refused(send, listed)
        rows = {row["id"]: row for row in listed.page.results}
        for pk, change in sorted(last.items(), key=lambda pair: pair[1].position):
            await self._tell_one(send, pk, rows.get(pk), change)
            self._position = change.position
        self._listed = listed
        return True

    async def _tell_one(self, send: Send, pk: str, row: Mapping[str, Any] | None, change: Noted) -> None:
        was_known = self._known is None or pk in self._known
        if row is not None:
            kind = streams.MODIFIED if was_known else streams.ADDED
            self._hold(pk)
            await _write(send, streams.event_of(kind, row, change.position))
        elif was_known:
            if self._known is not None:
                self._known.discard(pk)
            await _write(send, streams.event_of(streams.DELETED, {"id": pk}, change.position))

    def _hold(self, pk: str) -> None:
        if self._known is not None:
            self._known.add(pk)
            if len(self._known) > MOST_KNOWN:
                self._known = None

    async def _ask(self, words: Mapping[str, str]) -> Listed | Refusal:
        return await _in_thread(ask, self._respond, self._scope, words)


async def _look(seen: Position | None) -> tuple[set[str], Position]:
    return await _in_thread(list_kinds_changed, seen)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _write(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _refuse(send: Send, refusal: Refusal) -> None:
    await send({"type": "http.response.start", "status": refusal.status, "headers": refusal.headers})
    await send({"type": "http.response.body", "body": refusal.body})


def _problem(status: int, code: str, detail: str) -> Refusal:
    body = msgspec.json.encode(problem(status, code, detail).data)
    return Refusal(status, [(b"content-type", CONTENT_TYPE.encode()), (b"cache-control", b"no-store")], body)


async def _refused(send: Send, refusal: Refusal) -> bool:
    """The stream ends. What will pass is no word about the client, which comes again and goes on where it was."""
    if refusal.status not in _PASSING:
        await _write(send, streams.event_of(streams.ERROR, _decoded(refusal.body)))
    return False


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        return dict(msgspec.json.decode(body))
    except (msgspec.DecodeError, TypeError, ValueError):
        return {}


async def _in_thread(call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    def run() -> R:
        close_old_connections()
        try:
            return call(*args, **kwargs)
        finally:
            close_old_connections()

    return await asyncio.get_running_loop().run_in_executor(_threads, run)

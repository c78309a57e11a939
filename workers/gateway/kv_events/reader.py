"""Follows the engines that publish KV events where there is a choice between them; anywhere else it does nothing."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import zmq.asyncio
from msgspec import Struct, field

from workers.contracts.snapshot import Version
from workers.gateway.attempts.engines import Engine
from workers.gateway.driving.driver import Driver
from workers.gateway.http.engine_pool import EnginePool
from workers.gateway.http.requests import HttpRequest
from workers.gateway.kv_events.figures import KVEventFigures
from workers.gateway.kv_events.follower import EngineFollower
from workers.gateway.kv_events.learning import Learner, Prompt
from workers.gateway.kv_events.memory import CacheMemory
from workers.gateway.kv_events.stream import EventStream
from workers.gateway.kv_events.translation import Translation
from workers.gateway.kv_events.trust import Trust

logger = logging.getLogger(__name__)

LOOK_EACH_S = 0.25
# Prompts as engines' own clients make them; the others' tokens nobody tells.
_PATHS = (b"/v1/chat/completions", b"/v1/completions")
_MAX_BODY_BYTES = 1024 * 1024


class Followed(Struct, eq=False):
    """One version."""

    translation: Translation = field(default_factory=Translation)
    trust: Trust = field(default_factory=Trust)
    followers: dict[int, EngineFollower] = {}
    tasks: dict[int, asyncio.Task[None]] = {}


class CacheReader:
    """`saw` is on the request's path, everything else beside it. It wants to `look` each LOOK_EACH_S."""

    def __init__(self, driver: Driver, monotonic: Callable[[], float], directory: Path | None) -> None:
        """In `directory` it keeps what it knows of caches, for when it starts again."""
        self._directory = directory
        self.figures = KVEventFigures()
        self._driver = driver
        self._monotonic = monotonic
        self._versions: dict[str, Followed] = {}
        self._context: zmq.asyncio.Context | None = None
        self._learner: Learner | None = None
        self._learning: asyncio.Task[None] | None = None

    def saw(self, version: Version, blocks: tuple[int, ...], request: HttpRequest) -> int | None:
        """How many of a prompt's leading blocks the engines of this version tell of; None where none does."""
        followed = self._versions.get(version.version_id)
        if followed is None or self._learner is None:
            return None
        known = followed.translation.known(blocks)
        pool = self._any_pool(version.version_id)
        if pool is not None and request.path in _PATHS:
            is_new = known < len(blocks) and len(request.body) <= _MAX_BODY_BYTES
            body = request.body if is_new else b""
            self._learner.add(Prompt(followed.translation, followed.trust, pool, version.served_name, blocks, body))
        return known

    def look(self) -> None:
        engines = {id(engine): engine for engine in self._driver.engines if self._is_worth_following(engine)}
        for followed in self._versions.values():
            for gone in [key for key in followed.followers if key not in engines]:
                self._leave(followed, gone)
        for key, engine in engines.items():
            followed = self._versions.setdefault(engine.endpoint.version_id, Followed(followers={}, tasks={}))
            if key not in followed.followers:
                self._follow(followed, key, engine)
            followed.translation.expect_size(engine.block_tokens or 0)
        self._versions = {name: followed for name, followed in self._versions.items() if followed.followers}
        self._check_trust()
        self.figures.endpoints.clear()
        self.figures.endpoints.update(engine.cache_state for engine in engines.values())

    def close(self) -> None:
        for followed in self._versions.values():
            for key in list(followed.followers):
                self._leave(followed, key)
        if self._learning is not None:
            self._learning.cancel()
        if self._context is not None:
            self._context.destroy(linger=0)

    def _is_worth_following(self, engine: Engine) -> bool:
        endpoint = engine.endpoint
        return endpoint.shape.kv_events is not None and self._driver.has_choice(endpoint.version_id)

    def _follow(self, followed: Followed, key: int, engine: Engine) -> None:
        events = engine.endpoint.shape.kv_events
        if events is None:
            return
        if self._context is None or self._learner is None:
            self._context = zmq.asyncio.Context()
            self._learner = Learner(self._driver.cache_changed, self.figures, self._monotonic)
            self._learning = asyncio.create_task(self._learner.run())
        follower = EngineFollower(
            engine,
            EventStream(self._context, events),
            CacheMemory(self._directory, engine.endpoint.endpoint_id),
            followed.translation,
            tell=self._driver.cache_changed,
            figures=self.figures,
            monotonic=self._monotonic,
        )
        followed.followers[key] = follower
        followed.tasks[key] = asyncio.create_task(follower.run())

    def _leave(self, followed: Followed, key: int) -> None:
        followed.followers.pop(key).stop()
        followed.tasks.pop(key).cancel()

    def _check_trust(self) -> None:
        now = self._monotonic()
        for version_id, followed in self._versions.items():
            followed.trust.check(followed.translation.told_caches, now)
            if followed.trust.is_lost and followed.translation.told_caches:
                logger.warning("prompts to version %s become other tokens than its engines say", version_id)
                for follower in followed.followers.values():
                    follower.distrust()

    def _any_pool(self, version_id: str) -> EnginePool | None:
        """Each in turn."""
        followers = self._versions[version_id].followers
        key = next(iter(followers), None)
        if key is None:
            return None
        follower = followers[key] = followers.pop(key)
        return follower.pool

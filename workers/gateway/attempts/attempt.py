"""One attempt of a request at one engine."""

from workers.gateway.attempts.engines import Engine
from workers.gateway.http.call import Asker, Call


class Attempt(Call):
    __slots__ = ("engine",)

    def __init__(self, engine: Engine, message: bytes, asker: Asker) -> None:
        super().__init__(engine.pool, message, asker)
        self.engine = engine

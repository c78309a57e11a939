"""One attempt of a request at one engine."""

from workers.gateway.call import Asker, Call
from workers.gateway.engines import Engine


class Attempt(Call):
    __slots__ = ("engine",)

    def __init__(self, engine: Engine, message: bytes, asker: Asker) -> None:
        super().__init__(engine.pool, message, asker)
        self.engine = engine

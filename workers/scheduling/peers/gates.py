"""When a gateway with a queue sends more to an endpoint."""

from typing import ClassVar

from msgspec import Struct

from workers.scheduling.peers.router import Target


class OutstandingCap(Struct, frozen=True):
    """At most so many requests in an engine."""

    reads_reports: ClassVar[bool] = False
    cap: int

    def is_open(self, target: Target) -> bool:
        return target.outstanding < self.cap


class Saturation(Struct, frozen=True, kw_only=True):
    """llm-d's flow control: the engine's queue and KV use, as it reported them."""

    reads_reports: ClassVar[bool] = True
    queue: int = 5
    kv_usage: float = 0.8

    def is_open(self, target: Target) -> bool:
        return (target.report.waiting or 0) < self.queue and (target.report.kv_usage or 0.0) < self.kv_usage

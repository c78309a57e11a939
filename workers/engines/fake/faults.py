"""Faults of an engine that can be switched on while it runs, by POST /fake/faults or on the command line."""

from typing import Literal

from msgspec import Struct


class Faults(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All off. A POST sets the fields it names and leaves the others.

    is_hanging            requests are taken and never move on, while /health answers 200
    freeze_for_s          the process's loop stands still for so long: nothing at all is answered
    ignores_sigterm       it serves on when asked to end, as vLLM may with open streams
    health_delay_s        /health answers only after this long
    crash_after_tokens    the process ends after generating so many more tokens, as `crash_mode` says:
                          "exit" at once, as after kill -9; "engine_dead" as when vLLM's engine core dies: streams
                          get an error event and [DONE], others 500, /health 503, and a second later all ends
    refuse_for_s          nothing listens on the port for so long; open connections live on
    reset_after_tokens    each stream's connection is reset (RST) once it has sent so many tokens
    error_rate            this share of the generating requests is answered 500, chosen evenly, not by chance
    metrics_are_stale     /metrics keeps showing what it showed when this was switched on
    kv_events_are_silent  KV events are neither published nor sent again when asked for
    kv_events_to_lose     so many of the next batches of KV events reach nobody, and are there to be asked for
    queue_full_in_stream  a full queue shows as vLLM shows it in a burst: a stream gets 200 and then an error event
    """

    is_hanging: bool = False
    freeze_for_s: float = 0.0
    ignores_sigterm: bool = False
    health_delay_s: float = 0.0
    crash_after_tokens: int | None = None
    crash_mode: Literal["exit", "engine_dead"] = "exit"
    refuse_for_s: float = 0.0
    reset_after_tokens: int | None = None
    error_rate: float = 0.0
    metrics_are_stale: bool = False
    kv_events_are_silent: bool = False
    kv_events_to_lose: int = 0
    queue_full_in_stream: bool = False


class ErrorShare:
    """Picks a share of events evenly: of any 1/rate in a row, one."""

    def __init__(self) -> None:
        self._owed = 0.0

    def is_next(self, rate: float) -> bool:
        self._owed += rate
        if self._owed < 1.0 - 1e-9:
            return False
        self._owed -= 1.0
        return True

"""What a process of the stack is, as data."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.local.readiness import Probe


@dataclass(frozen=True, kw_only=True)
class ProcessSpec:
    """Processes of one `stage` stop together; a higher stage starts later and stops sooner.

    `lock` gives a descriptor that the process inherits, and refuses by raising.
    """

    name: str
    stage: int
    command: list[str]
    environment: Mapping[str, str]
    directory: Path
    is_ready: Probe
    stop_signal: int = signal.SIGTERM
    start_limit_s: float = 60.0
    popen_options: Mapping[str, Any] = field(default_factory=dict)
    lock: Callable[[], int] | None = None


@dataclass(frozen=True, kw_only=True)
class StepSpec:
    """A command that must succeed once before the stack goes on. `is_shown` leaves its stderr on the terminal."""

    name: str
    command: list[str]
    environment: Mapping[str, str]
    directory: Path
    is_shown: bool = False
    limit_s: float = 300.0

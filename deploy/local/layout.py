"""Names of what the local stack keeps under TOKENYARD_VAR."""

from dataclasses import dataclass
from pathlib import Path

SECRET_MODE = 0o600


class DataPlaceError(RuntimeError):
    """Nothing can be kept where TOKENYARD_VAR points; the message says why."""


@dataclass(frozen=True)
class Layout:
    var: Path

    @property
    def secrets(self) -> Path:
        return self.var / "secrets"

    @property
    def postgres(self) -> Path:
        return self.var / "postgres"

    @property
    def valkey(self) -> Path:
        return self.var / "valkey"

    @property
    def node(self) -> Path:
        return self.var / "node"

    @property
    def logs(self) -> Path:
        return self.var / "logs"

    @property
    def run(self) -> Path:
        """One file per process that was started, and the state of the whole; gone when all has stopped."""
        return self.var / "run"

    @property
    def lock(self) -> Path:
        return self.var / "supervisor.lock"

    @property
    def state(self) -> Path:
        return self.run / "state.json"

    @property
    def demo(self) -> Path:
        return self.var / "demo.json"

    @property
    def seed(self) -> Path:
        return self.secrets / "seed.json"

    def make(self) -> None:
        """Others may pass through `var` (Postgres runs as another account) but list nothing in it."""
        try:
            self._make()
        except OSError as error:
            message = f"nothing can be kept in {self.var} ({error.strerror}): name another directory, TOKENYARD_VAR=…"
            raise DataPlaceError(message) from error

    def _make(self) -> None:
        self.var.mkdir(parents=True, exist_ok=True)
        self.var.chmod(0o711)
        self.secrets.mkdir(mode=0o700, exist_ok=True)
        self.node.mkdir(mode=0o700, exist_ok=True)
        for directory in (self.logs, self.run):
            directory.mkdir(exist_ok=True, mode=0o700)

    def owned(self) -> list[Path]:
        """Everything that `reset` deletes; a stranger's files in the same directory stay."""
        beat = self.var.glob("celerybeat-schedule*")
        return [
            self.secrets,
            self.node,
            self.logs,
            self.run,
            self.demo,
            self.valkey,
            self.var / "staticfiles",
            self.var / "mail",
            *beat,
        ]


def write_private(path: Path, text: str) -> None:
    """Whole or not at all, readable by its owner only."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.touch(mode=SECRET_MODE)
    temporary.chmod(SECRET_MODE)
    temporary.write_text(text)
    temporary.replace(path)

"""The node's directory, as the agent uses it (names and owners: workers/contracts/layout.py)."""

import logging
from pathlib import Path

import msgspec

from workers.contracts import layout
from workers.contracts.decisions import DecisionFile, RequestDecision
from workers.contracts.desired import DesiredState
from workers.contracts.endpoints import Endpoint, EndpointList
from workers.contracts.signing import SnapshotRefusedError, open_signed
from workers.contracts.snapshot import Snapshot
from workers.contracts.telemetry import GatewayReport

log = logging.getLogger(__name__)

# Beyond this the gateway's report says nothing about now.
GATEWAY_REPORT_MAX_AGE_S = 5.0
# In one frame of telemetry.
MAX_DECISIONS = 256


class RefusedError(ValueError):
    """What came must not be kept; the message says why."""


class NodeFiles:
    """Holds what is on disk: a push is written before it counts as held."""

    def __init__(self, directory: Path, node_id: str) -> None:
        self.directory = directory
        self._node_id = node_id
        self.desired = self._load_desired()
        self._is_written = True
        self._unwritten_key: str | None = None
        self.is_removed = (directory / layout.REMOVED_FILE).exists()
        self.snapshot_generation = self._load_snapshot_generation()
        self._offered: tuple[list[Endpoint], list[Endpoint]] | None = None
        self._offers = 0
        self._decisions_taken = ("", 0)

    @property
    def desired_generation(self) -> int:
        return self.desired.generation if self.desired else 0

    def keep_desired(self, state: DesiredState) -> None:
        """Raises RefusedError for another node's, a deposed controller's, or an older one."""
        held = self.desired
        if state.node_id != self._node_id:
            raise RefusedError(f"desired state is for node {state.node_id}")
        if held and state.fence < held.fence:
            raise RefusedError(f"desired state has fence {state.fence}, and {held.fence} was seen")
        if held and state.fence == held.fence and state.generation < held.generation:
            raise RefusedError(f"desired state has generation {state.generation}, and {held.generation} is held")
        self.desired, self._is_written = state, False
        self.write_desired()

    def write_desired(self) -> None:
        """It holds from when it was heard, also while the disk is full; then this is to be tried again."""
        if not self._is_written and self.desired is not None:
            self._write(layout.DESIRED_FILE, msgspec.json.encode(self.desired))
            self._is_written = True

    def keep_removed(self, *, is_removed: bool) -> None:
        """It holds from when it was heard, also while the disk is full: a later start hears it again."""
        if is_removed != self.is_removed:
            self.is_removed = is_removed
            mark = self.directory / layout.REMOVED_FILE
            mark.touch() if is_removed else mark.unlink(missing_ok=True)

    def keep_snapshot(self, envelope: bytes) -> Snapshot:
        """Raises RefusedError unless this node's control plane signed it."""
        try:
            snapshot = open_signed(envelope, self._public_key())
        except (SnapshotRefusedError, OSError) as error:
            raise RefusedError(f"snapshot refused: {error}") from error
        self._write(layout.SNAPSHOT_FILE, envelope)
        self.snapshot_generation = snapshot.generation
        return snapshot

    def keep_public_key(self, public_key: str) -> None:
        """The first one met is this node's for good: joining another control plane begins with an empty directory."""
        path = self.directory / layout.PUBLIC_KEY_FILE
        if not path.exists():
            self._unwritten_key = self._unwritten_key or public_key
        if self._public_key() != public_key:
            log.error("the control plane's snapshot key is not the one in %s; its snapshots will be refused", path)

    def write_public_key(self) -> None:
        """It holds from when it was heard, also while the disk is full; then this is to be tried again."""
        if self._unwritten_key is not None:
            self._write(layout.PUBLIC_KEY_FILE, self._unwritten_key.encode())
            self._unwritten_key = None

    def keep_limits_url(self, url: str) -> None:
        """For the gateway, which reads it again when it changes. It holds a password."""
        path = self.directory / layout.LIMITS_FILE
        known = path.read_text(errors="replace") if path.exists() else ""
        if url != known:
            layout.write_whole(path, url.encode())

    def offer(self, endpoints: list[Endpoint], coming: list[Endpoint] | None = None) -> None:
        """`coming` are those that are not ready yet."""
        coming = coming or []
        if (endpoints, coming) == self._offered:
            return
        self._offers += 1
        offered = EndpointList(node_id=self._node_id, sequence=self._offers, endpoints=endpoints, coming=coming)
        self._write(layout.ENDPOINTS_FILE, msgspec.json.encode(offered))
        self._offered = (endpoints, coming)

    def read_gateway_report(self, now: float) -> GatewayReport | None:
        """None when there is none, or none of late. `now` in Unix seconds."""
        path = self.directory / layout.GATEWAY_REPORT_FILE
        try:
            if now - path.stat().st_mtime > GATEWAY_REPORT_MAX_AGE_S:
                return None
            return msgspec.json.decode(path.read_bytes(), type=GatewayReport)
        except (OSError, msgspec.DecodeError):
            return None

    def take_decisions(self) -> list[RequestDecision]:
        """Those of the gateway that were not taken yet; what a gateway before it left untaken is gone."""
        try:
            found = msgspec.json.decode((self.directory / layout.DECISIONS_FILE).read_bytes(), type=DecisionFile)
        except (OSError, msgspec.DecodeError):
            return []
        boot_id, taken = self._decisions_taken
        new = found.decisions[max(0, taken - found.first) if boot_id == found.boot_id else 0 :]
        self._decisions_taken = (found.boot_id, found.first + len(found.decisions))
        return new[-MAX_DECISIONS:]

    def _public_key(self) -> str:
        return self._unwritten_key or (self.directory / layout.PUBLIC_KEY_FILE).read_text(errors="replace").strip()

    def _write(self, name: str, content: bytes) -> None:
        layout.write_whole(self.directory / name, content)

    def _load_desired(self) -> DesiredState | None:
        try:
            held = msgspec.json.decode((self.directory / layout.DESIRED_FILE).read_bytes(), type=DesiredState)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            log.warning("%s is damaged: %s", layout.DESIRED_FILE, error)
            return None
        return held if held.node_id == self._node_id else None

    def _load_snapshot_generation(self) -> int:
        """0 when what lies there cannot be used, so that a new one is sent."""
        try:
            content = (self.directory / layout.SNAPSHOT_FILE).read_bytes()
            return open_signed(content, self._public_key()).generation
        except (OSError, SnapshotRefusedError):
            return 0

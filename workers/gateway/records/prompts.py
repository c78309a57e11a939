"""Keeps the prompts of tenants that asked for it, for the control plane to show them. Off unless a snapshot says so.

`keep` runs where requests are taken and only notes the body; sealing and writing are done once a second, on a thread.
"""

import base64
import binascii
import re
from collections import deque
from pathlib import Path
from threading import Lock

import msgspec
from msgspec import Struct

from workers.contracts import layout
from workers.contracts.prompts import PromptFile, SealedPrompt, seal_prompt

MAX_PROMPT_BYTES = 64 * 1024
MAX_WAITING_BYTES = 8 * 1024 * 1024
MAX_FILE_BYTES = 1024 * 1024
MAX_DIRECTORY_BYTES = 64 * 1024 * 1024
_ATTACHMENT = re.compile(rb";base64,[A-Za-z0-9+/=]{16,}")
_KEY_BYTES = 32


class Kept(Struct, frozen=True, eq=False):
    record_id: str
    tenant_id: str
    arrived_at: float
    text: bytes


class PromptKeeper:
    """Without a directory nothing is kept. What there is no room for is dropped and counted; no request waits for it.

    `dropped` counts up for as long as the process lives.
    """

    def __init__(self, directory: Path | None, boot_id: str) -> None:
        self._directory = directory
        self._boot_id = boot_id
        self._public_key = b""
        self._waiting: deque[Kept] = deque()
        self._waiting_bytes = 0
        self._lock = Lock()
        self._files = 0
        self.dropped = 0

    def adopt(self, public_key: str) -> None:
        """The snapshot's; one that is no key keeps nothing."""
        try:
            key = base64.b64decode(public_key, validate=True)
        except binascii.Error:
            key = b""
        self._public_key = key if len(key) == _KEY_BYTES else b""

    def keep(self, record_id: str, tenant_id: str, arrived_at: float, body: bytes) -> None:
        """Pictures and sounds within it are left out, and what is beyond MAX_PROMPT_BYTES."""
        if self._directory is None or not self._public_key:
            return
        text = _ATTACHMENT.sub(b";base64,(left out)", body)[:MAX_PROMPT_BYTES]
        with self._lock:
            if self._waiting_bytes + len(text) > MAX_WAITING_BYTES:
                self.dropped += 1
                return
            self._waiting.append(Kept(record_id, tenant_id, arrived_at, text))
            self._waiting_bytes += len(text)

    def write(self) -> None:
        """Once a second, and at the end. Raises OSError; what could not be written is dropped."""
        while kept := self._take():
            try:
                self._write(kept)
            except OSError:
                self.dropped += len(kept)
                raise

    def _take(self) -> list[Kept]:
        taken: list[Kept] = []
        size_bytes = 0
        with self._lock:
            while self._waiting and (not taken or size_bytes + len(self._waiting[0].text) <= MAX_FILE_BYTES):
                taken.append(self._waiting.popleft())
                size_bytes += len(taken[-1].text)
            self._waiting_bytes -= size_bytes
        return taken

    def _write(self, kept: list[Kept]) -> None:
        directory = self._directory
        if directory is None:
            return
        directory.mkdir(mode=0o700, exist_ok=True)
        if sum(path.stat().st_size for path in directory.iterdir()) > MAX_DIRECTORY_BYTES:
            self.dropped += len(kept)
            return
        self._files += 1
        sealed = PromptFile(prompts=[self._seal(each) for each in kept])
        layout.write_whole(directory / f"{self._boot_id}-{self._files:08d}.json", msgspec.json.encode(sealed))

    def _seal(self, kept: Kept) -> SealedPrompt:
        sealed = seal_prompt(kept.text, record_id=kept.record_id, tenant_id=kept.tenant_id, public_key=self._public_key)
        return SealedPrompt(
            record_id=kept.record_id, tenant_id=kept.tenant_id, arrived_at=kept.arrived_at, sealed=sealed
        )

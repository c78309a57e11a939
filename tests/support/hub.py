"""A hub of models like Hugging Face's, with files in memory; it can break off, damage and refuse."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SHA = "5f0b02c75b57c5855da9ae460ce51323ea669d8a"


class Hub:
    """`breaks_after` bytes of a file its connection ends, once; `damages` files by name."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.asked: list[tuple[str, str | None]] = []
        self.breaks_after: int | None = None
        self.damages: set[str] = set()
        self.claims_bytes: int | None = None
        self.is_held = threading.Event()
        self.is_held.set()
        self.url = ""

    def listing(self) -> bytes:
        siblings = [
            {
                "rfilename": name,
                "size": self.claims_bytes or len(content),
                "lfs": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)},
            }
            for name, content in self.files.items()
        ]
        return json.dumps({"sha": SHA, "siblings": siblings}).encode()


@contextmanager
def running_hub(files: dict[str, bytes]) -> Iterator[Hub]:
    hub = Hub(files)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _answering(hub))
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.is_held.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _answering(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.asked.append((self.path, self.headers.get("Range")))
            if "/api/models/" in self.path:
                self._send(200, hub.listing())
                return
            name = self.path.split(f"/resolve/{SHA}/")[-1]
            if name not in hub.files:
                self._send(404, b"")
                return
            self._send_file(name)

        def _send_file(self, name: str) -> None:
            content = hub.files[name]
            content = b"x" * len(content) if name in hub.damages else content
            start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
            hub.is_held.wait(20)
            if hub.breaks_after is not None and len(content) > hub.breaks_after:
                end, hub.breaks_after = start + hub.breaks_after, None
                self._send(206 if start else 200, content[start:end], length=len(content) - start)
                return
            self._send(206 if start else 200, content[start:])

        def _send(self, status: int, body: bytes, length: int | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body) if length is None else length))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            return

    return Answers

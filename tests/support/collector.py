"""A collector of traces, as far as a client of one can tell."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any


class Collected:
    """`statuses` are the next answers; 200 when there are no more."""

    def __init__(self) -> None:
        self.url = ""
        self.statuses: list[int] = []
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.taken: list[dict[str, Any]] = []
        self._changed = Condition()

    def receive(self, path: str, headers: dict[str, str], body: bytes) -> int:
        with self._changed:
            message = json.loads(body)
            self.requests.append((path, headers, message))
            status = self.statuses.pop(0) if self.statuses else 200
            if status == 200:
                self.taken += message["resourceSpans"][0]["scopeSpans"][0]["spans"]
            self._changed.notify_all()
            return status

    def wait_for_spans(self, count: int, timeout_s: float = 15) -> list[dict[str, Any]]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.taken) >= count, timeout_s), f"{len(self.taken)} spans came"
            return self.taken

    def wait_for_requests(self, count: int, timeout_s: float = 15) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) >= count, timeout_s)


@contextmanager
def collector() -> Iterator[Collected]:
    collected = Collected()

    class Receiver(BaseHTTPRequestHandler):
        timeout = 10

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(collected.receive(self.path, dict(self.headers), body))
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    collected.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collected
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)

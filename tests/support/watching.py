"""A client of `?watch=1`, in a thread of its own."""

import json
import threading
import time
from contextlib import contextmanager

import requests

WAIT_S = 20.0


class Watcher:
    """`events` are (type, object); `last_id` is what a client sends to go on from there."""

    def __init__(self, response):
        self.status = response.status_code
        self.events = []
        self.last_id = ""
        self.is_over = False
        self._response = response
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait_for(self, kind, **wanted):
        """The first object of that type, not seen by an earlier wait, with these fields."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            for found in [each for each in self.events if each[0] == kind]:
                if all(found[1].get(name) == value for name, value in wanted.items()):
                    self.events.remove(found)
                    return found[1]
            time.sleep(0.02)
        raise AssertionError(f"no {kind} with {wanted} came; there were {self.events}")

    def wait_for_end(self):
        self._thread.join(WAIT_S)
        return self.is_over

    def close(self):
        if not self.is_over:
            self._response.raw.shutdown()  # else closing waits for what is being read, until the next heartbeat
        self._response.close()
        self._thread.join(WAIT_S)

    def _read(self):
        try:
            for line in self._response.iter_lines(chunk_size=1):
                self._take(line.decode())
        except (requests.RequestException, OSError, AttributeError):
            pass  # closed by the test
        self.is_over = True

    def _take(self, line):
        name, _, value = line.partition(": ")
        if name == "id":
            self.last_id = value
        elif name == "data":
            event = json.loads(value)
            self.events.append((event["type"], event["object"]))


@contextmanager
def watching(url, token, **options):
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"} | options.pop("headers", {})
    response = requests.get(url, headers=headers, params={"watch": "1"} | options, stream=True, timeout=(5, 60))
    watcher = Watcher(response)
    try:
        yield watcher
    finally:
        watcher.close()

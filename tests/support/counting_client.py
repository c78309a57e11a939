"""A client that knows nothing of Tokenyard but its address, and writes down every token that it was told of."""

import http.client
import json
import random
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Told:
    """What became of one request. `usage` None: no answer ended. `pieces` of text came, or a refusal's `code`."""

    request_id: str
    is_stream: bool
    status: int | None = None
    usage: dict[str, Any] | None = None
    pieces: int = 0
    code: str = ""


class CountingClient(threading.Thread):
    """Asks one request after the other until it is told to stop."""

    def __init__(self, number: int, *, url: str, key: str, model: str) -> None:
        super().__init__(daemon=True)
        self._number, self._key, self._model = number, key, model
        self._address = urlsplit(url)
        self._chance = random.Random(number)  # noqa: S311 - made-up requests
        self._is_over = threading.Event()
        self.told: list[Told] = []

    def stop(self) -> None:
        self._is_over.set()
        self.join(60)

    def run(self) -> None:
        while not self._is_over.is_set():
            told = Told(f"chaos-{self._number}-{len(self.told)}", is_stream=self._chance.random() < 0.7)
            self.told.append(told)
            try:
                self._ask(told)
            except (OSError, http.client.HTTPException):
                time.sleep(0.2)  # whoever answers is being started again

    def _ask(self, told: Told) -> None:
        tokens = self._chance.randrange(1, 60)
        body: dict[str, Any] = {
            "model": self._model, "stream": told.is_stream, "ignore_eos": True, "min_tokens": tokens,
            "max_tokens": tokens, "messages": [{"role": "user", "content": "word " * self._chance.randrange(1, 200)}],
        }  # fmt: skip
        if told.is_stream:
            body["stream_options"] = {"include_usage": True}
        headers = {
            "Authorization": f"Bearer {self._key}", "Content-Type": "application/json", "X-Request-Id": told.request_id,
        }  # fmt: skip
        connection = http.client.HTTPConnection(self._address.hostname or "", self._address.port, timeout=60)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
            answer = connection.getresponse()
            told.status = answer.status
            self._read(answer, told)
        finally:
            connection.close()

    def _read(self, answer: http.client.HTTPResponse, told: Told) -> None:
        if not told.is_stream or told.status != http.HTTPStatus.OK:
            body = json.loads(answer.read())
            told.usage, told.code = body.get("usage"), body.get("error", {}).get("code", "")
            return
        usage = None
        for line in answer:
            if line.startswith(b"data: [DONE]"):
                told.usage = usage
            elif line.startswith(b"data: "):
                event = json.loads(line[6:])
                usage = event.get("usage") or usage
                told.pieces += any((choice.get("delta") or {}).get("content") for choice in event.get("choices", ()))

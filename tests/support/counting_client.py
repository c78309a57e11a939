"""A client that knows nothing of Tokenyard but its address, and writes down every token that it was told of."""

import http.client
import json
import random
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

KINDS = ("whole", "stream", "stream", "stream", "cut", "two", "late", "completion")


@dataclass
class Told:
    """What became of one request. `usage` None: no answer ended. `text` came, or a refusal's `code`.

    `is_whole`: the answer came to its end, be that an error's. `is_cut`: this client left in the middle.
    """

    request_id: str
    kind: str
    status: int | None = None
    usage: dict[str, Any] | None = None
    text: str = ""
    code: str = ""
    is_whole: bool = False
    is_cut: bool = False

    @property
    def tokens(self) -> int:
        """A word is a token of the fake engine, however many come in one piece."""
        return len(self.text.split())

    @property
    def is_stream(self) -> bool:
        return self.kind not in {"whole", "two"}


class CountingClient(threading.Thread):
    """Asks one request after the other until it is told to stop."""

    def __init__(self, number: int, *, url: str, key: str, model: str, seed: int = 0) -> None:
        super().__init__(daemon=True)
        self._key, self._model = key, model
        self._address = urlsplit(url)
        self._own_name = f"{seed}-{number}"
        self._chance = random.Random(self._own_name)  # noqa: S311 - made-up requests
        self._is_over = threading.Event()
        self.told: list[Told] = []

    def stop(self) -> None:
        self._is_over.set()
        self.join(60)

    def run(self) -> None:
        while not self._is_over.is_set():
            told = Told(f"chaos-{self._own_name}-{len(self.told)}", self._chance.choice(KINDS))
            self.told.append(told)
            try:
                self._ask(told)
            except (OSError, http.client.HTTPException):
                time.sleep(0.2)  # whoever answers is being started again

    def _ask(self, told: Told) -> None:
        connection = http.client.HTTPConnection(self._address.hostname or "", self._address.port, timeout=60)
        try:
            path, body = self._request(told)
            connection.request("POST", path, json.dumps(body), self._headers(told))
            answer = connection.getresponse()
            told.status = answer.status
            self._read(answer, told)
        finally:
            connection.close()

    def _request(self, told: Told) -> tuple[str, dict[str, Any]]:
        tokens, words = self._chance.randrange(1, 60), "word " * self._chance.randrange(1, 200)
        body: dict[str, Any] = {
            "model": self._model, "stream": told.is_stream, "ignore_eos": True, "min_tokens": tokens,
            "max_tokens": tokens,
        }  # fmt: skip
        if told.is_stream:
            body["stream_options"] = {"include_usage": True}
        if told.kind == "two":
            body["n"] = 2
        if told.kind == "completion":
            return "/v1/completions", body | {"prompt": words}
        return "/v1/chat/completions", body | {"messages": [{"role": "user", "content": words}]}

    def _headers(self, told: Told) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        headers["X-Request-Id"] = told.request_id
        if told.kind == "late":
            headers["X-Request-Deadline-Ms"] = str(self._chance.randrange(20, 1500))
        return headers

    def _read(self, answer: http.client.HTTPResponse, told: Told) -> None:
        if not told.is_stream or told.status != http.HTTPStatus.OK:
            body = json.loads(answer.read())
            told.usage, told.code = body.get("usage"), body.get("error", {}).get("code", "")
            told.is_whole = True
            return
        leaves_after = self._chance.randrange(12) if told.kind == "cut" else None
        usage = None
        for line in answer:
            if line.startswith(b"data: [DONE]"):
                told.usage, told.is_whole = usage, True
            elif line.startswith(b"data: "):
                event = json.loads(line[6:])
                usage = event.get("usage") or usage
                told.code = (event.get("error") or {}).get("code", "")
                told.is_whole = told.is_whole or bool(told.code)
                told.text += "".join(map(_text_of, event.get("choices", ())))
            if leaves_after is not None and told.tokens >= leaves_after:
                told.is_cut = True
                return


def _text_of(choice: dict[str, Any]) -> str:
    return choice.get("text") or (choice.get("delta") or {}).get("content") or ""

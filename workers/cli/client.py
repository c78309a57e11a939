"""The REST API over HTTP: pages, problems as errors, streams of events. Every call has a timeout."""

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import requests

from workers.cli.config import Place
from workers.cli.errors import NOT_ALLOWED, TOO_LONG_AGO, UNREACHABLE, CLIError, code_of

PAGE_SIZE = 200
CONNECT_TIMEOUT_S = 5.0
SILENCE_TIMEOUT_S = 30.0  # a watch says something every 10 s
_PREFIX = "/api/v1/"
_REFUSED = 400
_ASKED_AGAIN = 2
_AGAIN_AFTER_S = 1.0

Row = dict[str, Any]


class Client:
    def __init__(self, place: Place, timeout_s: float) -> None:
        self._place = place
        self._timeout_s = timeout_s
        self._session = requests.Session()
        self._session.headers["User-Agent"] = "tokenyard-cli"
        if place.token:
            self._session.headers["Authorization"] = f"Bearer {place.token}"
        if place.ca_file:
            self._session.verify = place.ca_file

    def get(self, path: str, **query: Any) -> Any:
        return _content_of(self._ask("GET", path, params=query))

    def tagged(self, path: str) -> tuple[Row, str]:
        """A thing with its ETag, for a change that shall not overwrite another's."""
        response = self._ask("GET", path)
        return _content_of(response), response.headers.get("ETag", "")

    def rows(self, path: str, *, limit: int = 0, **query: Any) -> Iterator[Row]:
        """Of all pages; `limit` 0 is none."""
        page = self.get(path, page_size=min(limit or PAGE_SIZE, PAGE_SIZE), **query)
        count = 0
        while True:
            for row in page["results"]:
                yield row
                count += 1
                if limit and count >= limit:
                    return
            if not page.get("next"):
                return
            page = _content_of(self._ask("GET", page["next"].partition(_PREFIX)[2]))

    def write(
        self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None, **query: Any
    ) -> Any:
        """With a key of its own, so that a second try after a lost answer does nothing twice."""
        sent = {"Idempotency-Key": str(uuid.uuid4()), **(headers or {})}
        content = {"data": body.encode()} if isinstance(body, str) else {"json": body if body is not None else {}}
        response = self._ask(method, path, headers=sent, params=query, **content)
        return _content_of(response) if response.content else None

    def events(self, path: str, **query: Any) -> Iterator[tuple[str, Row]]:
        """(type, object) of a watch; goes on where it was when the line breaks, from the beginning if too long ago."""
        last_id = ""
        while True:
            try:
                with self._stream(path, last_id, query) as response:
                    for event_id, kind, content in _parsed(response, last_id):
                        last_id = event_id
                        yield kind, content
            except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
                if not last_id:
                    raise _unreachable(self._place.url, error) from None
            except CLIError as error:
                if not last_id or error.exit_code not in {UNREACHABLE, TOO_LONG_AGO}:
                    raise
                last_id = "" if error.exit_code == TOO_LONG_AGO else last_id
            time.sleep(_AGAIN_AFTER_S)

    def _stream(self, path: str, last_id: str, query: Mapping[str, Any]) -> requests.Response:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        response = self._session.get(
            self._url(path),
            params={"watch": "1", **query},
            headers=headers,
            stream=True,
            timeout=(CONNECT_TIMEOUT_S, SILENCE_TIMEOUT_S),
        )
        return _checked(response, self._place)

    def _ask(self, method: str, path: str, **options: Any) -> requests.Response:
        for _ in range(_ASKED_AGAIN - 1):
            try:
                return self._send(method, path, **options)
            except CLIError as error:
                if error.exit_code != UNREACHABLE:
                    raise
        return self._send(method, path, **options)

    def _send(self, method: str, path: str, **options: Any) -> requests.Response:
        timeout = (CONNECT_TIMEOUT_S, self._timeout_s)
        try:
            response = self._session.request(method, self._url(path), timeout=timeout, allow_redirects=False, **options)
        except requests.Timeout:
            raise CLIError(f"{self._place.url} did not answer within {self._timeout_s:g} s", UNREACHABLE) from None
        except (requests.RequestException, OSError) as error:
            raise _unreachable(self._place.url, error) from error
        return _checked(response, self._place)

    def _url(self, path: str) -> str:
        return f"{self._place.url}{_PREFIX}{path}"


def _content_of(response: requests.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        raise CLIError(f"what {response.url} answered is not Tokenyard's API") from None


def _unreachable(url: str, error: Exception) -> CLIError:
    return CLIError(f"{url} cannot be reached: {_reason_of(error)}", UNREACHABLE)


def _reason_of(error: BaseException) -> str:
    """Of libraries' errors around errors the innermost that has words, such as "Connection refused"."""
    words, each = type(error).__name__, error.__cause__ or error.__context__
    while each is not None:
        words = getattr(each, "strerror", None) or words
        inner = getattr(each, "reason", None)
        each = each.__cause__ or each.__context__ or (inner if isinstance(inner, Exception) else None)
    return words


def _checked(response: requests.Response, place: Place) -> requests.Response:
    if response.status_code < _REFUSED and not response.is_redirect:
        return response
    if response.is_redirect:
        raise CLIError(f"{place.url} leads elsewhere ({response.headers.get('Location', '')}); log in there instead")
    if response.status_code == 401:  # noqa: PLR2004 - its own words
        why = "the token is unknown, expired or revoked" if place.token else "there is no token"
        raise CLIError(f"{why}; run `tokenyard login`", NOT_ALLOWED)
    raise _problem_of(response)


def _problem_of(response: requests.Response) -> CLIError:
    """What is said of a field is not said twice."""
    code = code_of(response.status_code)
    try:
        problem = response.json()
        detail = str(problem["detail"])
        fields = {name: str(text) for name, text in problem.get("fields", {}).items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return CLIError(f"{response.status_code} {response.reason}: this is not Tokenyard's API", code)
    words = "".join(f"\n  {name}: {text}" for name, text in fields.items() if f"{name}: {text}" not in detail)
    return CLIError(detail + words, code, fields)


def _parsed(response: requests.Response, last_id: str) -> Iterator[tuple[str, str, Row]]:
    for line in response.iter_lines():
        name, _, value = line.decode().partition(": ")
        if name == "id":
            last_id = value
        elif name == "data":
            event = json.loads(value)
            if event["type"] == "ERROR":
                raise CLIError(str(event["object"].get("detail", "the watch has ended")), NOT_ALLOWED)
            yield last_id, event["type"], event["object"]

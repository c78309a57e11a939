"""Event streams as other engines might write them: the same events, in other bytes."""

import json
import re
from collections.abc import Callable

_DATA = re.compile(rb"^data: (\{.*\})$", re.MULTILINE)


def without_space(body: bytes) -> bytes:
    return body.replace(b"data: ", b"data:").replace(b"event: ", b"event:")


def with_spaced_json(body: bytes) -> bytes:
    return _DATA.sub(lambda found: b"data: " + json.dumps(json.loads(found[1])).encode(), body)


def with_numbers(body: bytes) -> bytes:
    return _DATA.sub(lambda found: b"id: 7\n" + found[0], body)


def with_numbers_behind(body: bytes) -> bytes:
    return _DATA.sub(lambda found: found[0] + b"\nid: 7", body)


def with_usage_first(body: bytes) -> bytes:
    def turned(found: re.Match[bytes]) -> bytes:
        fields = json.loads(found[1])
        first = {name: fields.pop(name) for name in ("usage",) if name in fields}
        return b"data: " + json.dumps(first | fields, separators=(",", ":")).encode()

    return _DATA.sub(turned, body)


def without_names(body: bytes) -> bytes:
    return re.sub(rb"^event: .*\n", b"", body, flags=re.MULTILINE)


RESPELLINGS: list[Callable[[bytes], bytes]] = [
    without_space,
    with_spaced_json,
    with_numbers,
    with_numbers_behind,
    with_usage_first,
    without_names,
]

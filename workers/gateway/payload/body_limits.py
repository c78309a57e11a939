"""What a body may not be, whatever the engine would say: too deep, too long a list, or an errand into our network.

An engine fetches the images, sounds and films that a prompt points to, from where it stands, which is inside. So an
http address passes only if its host is one that the snapshot allows by name; whether the name leads to the same address
when the engine asks again is then its owner's affair, which is why a look-up of our own would prove nothing. Content
that is in the body itself (data:) passes, and no other scheme does.
"""

import ipaddress
import json
import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from workers.gateway.errors import GatewayError, bad_request
from workers.gateway.payload.bodies import USUAL_STARTS, in_utf8

MAX_DEPTH = 256
MAX_MESSAGES = 4096
_ROLE = b'"role"'
_BACKSLASH = 92
# So many are found one by one, which is faster than to look at every byte; most bodies have no more.
_FEW = 12
_ADDRESS_FIELDS = frozenset(("url", "image_url", "video_url", "audio_url", "file_url"))
# Whose values are the client's own and no part of a prompt.
_NOT_PROMPTS = frozenset(("tools", "functions", "response_format", "metadata", "structured_outputs", "arguments"))
_INSIDE = (".localhost", ".local", ".internal", ".localdomain", ".lan", ".intranet", ".home.arpa")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_AS_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def check_body(body: bytes, media_hosts: frozenset[str]) -> None:
    """Raises a 400. The body is JSON; most are done after a few searches."""
    if body[:2] not in USUAL_STARTS:
        body = in_utf8(body)
    if not body.isascii():
        _require_text(body)
    if _count(body, b"{") + _count(body, b"[") > MAX_DEPTH and _is_deep(body):
        raise bad_request("invalid_json", f"The body is nested more than {MAX_DEPTH} deep.")
    if len(body) > MAX_MESSAGES * len(_ROLE) and body.count(_ROLE) > MAX_MESSAGES:
        raise bad_request("too_many_messages", f"There are more than {MAX_MESSAGES} messages.", "messages")
    if _may_hold_address(body):
        _check_addresses(_decoded(body), media_hosts)


def _require_text(body: bytes) -> None:
    """What the gateway does not read of a body may be no text; engines refuse it, and nothing can be set in it."""
    try:
        body.decode("utf-8", "surrogatepass")  # as engines take it
    except UnicodeDecodeError:
        raise bad_request("invalid_json", "The body is not valid JSON: it is not encoded in UTF-8.") from None


def _count(body: bytes, mark: bytes) -> int:
    at = -1
    for found in range(_FEW):
        at = body.find(mark, at + 1)
        if at < 0:
            return found
    return _FEW + body.count(mark, at + 1)


def _may_hold_address(body: bytes) -> bool:
    """In a field that is named so, or by a name of which a letter is escaped."""
    # `find` where `in` would do: for bytes that raises and catches an error inside; for one byte's number it does not.
    if body.find(b'url"') >= 0 and (b'_url"' in body or b'"url"' in body):
        return True
    return _BACKSLASH in body and body.find(b"\\u00") >= 0


def _is_deep(body: bytes) -> bool:
    brackets = _STRING.sub(b"", body).translate(_AS_SQUARE, _NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return _decoded_leniently(body)


def _decoded_leniently(body: bytes) -> Any:
    """Which takes what engines take too."""
    try:
        return json.loads(body)
    except ValueError as error:  # in what was not read before
        raise bad_request("invalid_json", f"The body is not valid JSON: {error}") from None


def _check_addresses(found: Any, media_hosts: frozenset[str]) -> None:
    waiting = [found]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            for name, value in item.items():
                if isinstance(value, str):
                    if name in _ADDRESS_FIELDS:
                        _check_address(value, media_hosts)
                elif name not in _NOT_PROMPTS:
                    waiting.append(value)


def _check_address(address: str, media_hosts: frozenset[str]) -> None:
    """Judged as the engine would read it: browsers' and urllib's rules differ, so what they may disagree on is out."""
    if address[:5].lower() == "data:":
        return
    if not address.isascii() or any(letter <= " " or letter in "\\@" for letter in address):
        raise _refused()
    try:
        parts = urlsplit(address)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        raise _refused() from None
    is_allowed = host in media_hosts or ("*" in media_hosts and not _is_inside(host))
    if parts.scheme not in ("http", "https") or not is_allowed:
        raise _refused()


def _is_inside(host: str) -> bool:
    """By its looks: a name of this machine or network, or an address."""
    return "." not in host or host.endswith(_INSIDE) or _is_number(host)


def _is_number(host: str) -> bool:
    """An address in place of a name, in any of the spellings that resolvers take: 127.1, 0x7f.1, [::1], 2130706433."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        last = host.rpartition(".")[2]
        return ":" in host or last.isdigit() or last.startswith("0x")
    return True


def _refused() -> GatewayError:
    """It does not repeat the address, which is the client's."""
    return bad_request(
        "media_url_refused",
        "Media must be in the request itself, as a data: URL, or at a host that this installation allows.",
    )

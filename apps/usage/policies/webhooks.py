"""Where a webhook may go, how it is signed, and when it is tried again. Pure."""

import hashlib
import hmac
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from string import punctuation
from urllib.parse import quote, urlsplit

MAX_ATTEMPTS = 8
_FIRST_WAIT = timedelta(minutes=1)
_NAT64 = IPv6Network("64:ff9b::/96")
_SCHEMES = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Target:
    is_tls: bool
    host: str
    port: int
    path: str


def target_of(url: str) -> Target | None:
    """None where the address is not one that a webhook can have: no other scheme, no login, nothing after a #."""
    try:
        parts = urlsplit(url)
        port = parts.port or _SCHEMES[parts.scheme]
    except (ValueError, KeyError):
        return None
    if not parts.hostname or parts.username or parts.password or parts.fragment or not url.isprintable() or " " in url:
        return None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme == "https", parts.hostname, port, quote(path, safe=punctuation))


def shown_address(url: str) -> str:
    """Who is told. What follows the host is often a secret: whoever knows it may post there in our name."""
    parts = urlsplit(url)
    rest = "/…" if parts.path.strip("/") or parts.query else parts.path
    return f"{parts.scheme}://{parts.netloc}{rest}" if url else ""


def may_reach(address: str, *, host: str, trusted_hosts: Collection[str]) -> bool:
    """Public addresses only, so that nobody has us call what only we can reach; or what the operator trusts."""
    if host in trusted_hosts:
        return True
    inner = _inner(ip_address(address))
    return inner.is_global and not inner.is_multicast


def _inner(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 one wraps."""
    if isinstance(address, IPv4Address):
        return address
    wrapped = address.ipv4_mapped or address.sixtofour
    if wrapped is None and address in _NAT64:
        wrapped = IPv4Address(int(address) & 0xFFFFFFFF)
    return wrapped or address


def signature(key: str, body: bytes, *, sent_at_s: int) -> str:
    """`t=<Unix seconds>,v1=<hex HMAC-SHA256 of "<t>.<body>">`."""
    mac = hmac.new(key.encode(), f"{sent_at_s}.".encode() + body, hashlib.sha256)
    return f"t={sent_at_s},v1={mac.hexdigest()}"


def next_try_at(attempts: int, now: datetime) -> datetime | None:
    """After 1, 4, 16, … minutes; None: given up."""
    return now + _FIRST_WAIT * 4 ** (attempts - 1) if attempts < MAX_ATTEMPTS else None

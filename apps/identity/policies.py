"""Pure rules of signing in: how long a guesser waits, what a code is worth, what a group grants."""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

import pyotp
from cryptography.fernet import Fernet

from apps.common.credentials import sha256_of

STEP_S = 30
STEPS_AROUND = 1
RECOVERY_CODES = 10
MEMORY_S = 3600
LONGEST_WAIT_S = 900
SUBJECT_CHARACTERS = 255
PLATFORM_ROLES = {"platform_admin": "is_platform_admin", "operator": "is_operator", "finance": "is_finance"}
TENANT_ROLES = ("tenant_admin", "developer", "viewer")


@dataclass(frozen=True)
class Bucket:
    """What is counted together. `free` attempts cost nothing, each further one doubles the wait."""

    name: str
    free: int


def password_buckets(*, account: str, address: str, device: str) -> list[Bucket]:
    """A browser that has signed in to the account before has a bucket of its own, which nobody else can fill.

    Everybody else is counted by account and address together, and by address: who guesses from one place keeps nobody
    out who comes from another.
    """
    if device:
        return [_bucket("device", device, free=10)]
    network = network_of(address)
    return [_bucket("pair", account.lower(), network, free=5), _bucket("address", network, free=50)]


def code_buckets(*, account: str, address: str, device: str) -> list[Bucket]:
    """Who gets here knows the password, so the account as a whole may be counted, too."""
    if device:
        return [_bucket("code device", device, free=10)]
    return [_bucket("code pair", account, network_of(address), free=5), _bucket("code account", account, free=50)]


def letter_buckets(*, account: str, address: str) -> list[Bucket]:
    return [_bucket("letter", account.lower(), free=3), _bucket("letters", network_of(address), free=20)]


def wait_s(count: int, free: int) -> int:
    """After the attempt number `count`."""
    return 0 if count < free else min(2 ** min(count - free, 20), LONGEST_WAIT_S)


def network_of(address: str) -> str:
    """IPv6 by its /64: one customer has all of it."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(parsed, IPv6Address):
        return str(parsed.ipv4_mapped or ip_network((int(parsed) >> 64 << 64, 64)))
    return str(parsed)


def _bucket(*parts: str, free: int) -> Bucket:
    return Bucket(sha256_of("\x1f".join(parts)), free)


def matching_step(secret: str, code: str, unix_time: float) -> int | None:
    """The time step whose code this is, of those around now."""
    totp, now = pyotp.TOTP(secret), int(unix_time) // STEP_S
    for step in range(now - STEPS_AROUND, now + STEPS_AROUND + 1):
        if hmac.compare_digest(totp.at(step * STEP_S).encode(), code.encode()):
            return step
    return None


def reset_is_for(password_hash: str, address: str) -> str:
    """What a link to a new password is tied to: after a change of either it is no longer the user's."""
    return sha256_of(f"{password_hash}\x1f{address.lower()}")


def normal_code(text: str) -> str:
    return "".join(text.split()).replace("-", "").lower()


def seal(secret: str, key: str) -> str:
    return _fernet(key).encrypt(secret.encode()).decode()


def unseal(sealed: str, key: str) -> str:
    return _fernet(key).decrypt(sealed.encode()).decode()


def _fernet(key: str) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(b"second factor" + key.encode()).digest()))


def is_subject(claim: Any) -> bool:
    """As OpenID Connect bounds it; and Postgres takes no NUL."""
    return isinstance(claim, str) and 0 < len(claim) <= SUBJECT_CHARACTERS and "\x00" not in claim


@dataclass(frozen=True)
class Granted:
    """What the groups of a person come to. `tenants` maps full names onto roles."""

    platform: frozenset[str] = frozenset()
    tenants: Mapping[str, str] = field(default_factory=dict)


def read_group_rules(text: str) -> dict[str, dict[str, str]]:
    """`{"group": {"platform": "operator"}, "other": {"tenant": "acme/search", "role": "developer"}}`.

    Raises ValueError, which says what is wrong.
    """
    rules: Any = json.loads(text or "{}")
    if not isinstance(rules, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - one kind of error for whatever is wrong
    for group, rule in rules.items():
        _check_rule(group, rule)
    return rules


def _check_rule(group: str, rule: Any) -> None:
    keys = set(rule) if isinstance(rule, dict) else set()
    if keys == {"platform"} and rule["platform"] in PLATFORM_ROLES:
        return
    if keys == {"tenant", "role"} and rule["role"] in TENANT_ROLES:
        return
    raise ValueError(f"group {group!r} needs a platform role, or a tenant and a role")


def grant(groups: Iterable[str], rules: Mapping[str, Mapping[str, str]]) -> Granted:
    """Of two roles in one tenant the stronger holds."""
    found = [rules[group] for group in groups if group in rules]
    tenants: dict[str, str] = {}
    for rule in found:
        if "tenant" in rule:
            held = [rule["role"], *filter(None, [tenants.get(rule["tenant"])])]
            tenants[rule["tenant"]] = min(held, key=TENANT_ROLES.index)
    return Granted(frozenset(rule["platform"] for rule in found if "platform" in rule), tenants)

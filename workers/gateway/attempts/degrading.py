"""Which cheaper versions may answer in place of the one that a request is for, and at what price."""

from collections.abc import Mapping
from urllib.parse import quote

from msgspec import Struct

from workers.contracts.pricing import price_for
from workers.contracts.snapshot import Price, TenantPolicy, Version
from workers.gateway import errors
from workers.gateway.payload.bodies import Peek
from workers.gateway.payload.labels import DEGRADE, sticky_id

DEGRADED_TO = b"x-degraded-to"
_WORDS = {b"allow": True, b"never": False}


class Alternative(Struct, frozen=True, eq=False):
    """`price` is the tenant's."""

    version: Version
    price: Price

    @property
    def name(self) -> str:
        """For people, and fit for a header."""
        return quote(f"{self.version.model}@{self.version.label}", safe=" @/:+~")


def alternatives_for(
    offered: list[Version], tenant: TenantPolicy, noted: Mapping[bytes, bytes], found: Peek, tokens: int
) -> tuple[Alternative, ...]:
    """Those whose context holds the request of so many tokens; none where the client holds on to its version."""
    if not _may_degrade(noted, found):
        return ()
    fitting = [version for version in offered if tokens <= (version.max_context_tokens or tokens)]
    return tuple([Alternative(version, price_for(version, tenant)) for version in fitting])


def _may_degrade(noted: Mapping[bytes, bytes], found: Peek) -> bool:
    """Who names a session or user is promised one version, unless the header says otherwise."""
    asked = noted.get(DEGRADE)
    if asked is None:
        return not sticky_id(noted, found)
    allowed = _WORDS.get(asked.strip().lower())
    if allowed is None:
        raise errors.bad_header(DEGRADE.decode(), "allow or never")
    return allowed

"""What a browser's session remembers of how its owner signed in."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

CONFIRMED_AT = "confirmed_at"
SIGN_IN_ID = "sign_in_id"
ACCESS_VERSION = "access_version"
FRESH_FOR_S = 900


def is_fresh(session: Mapping[str, Any], now: datetime) -> bool:
    """Whether its owner has shown a password or the like of late: what a dangerous act asks for."""
    return now.timestamp() - float(session.get(CONFIRMED_AT, 0.0)) < FRESH_FOR_S

"""Numbers in headers: sound, or a 400 that says what would be."""

import re
from collections.abc import Mapping
from decimal import Decimal

from workers.gateway import errors

MAX_DIGITS = 18
_MONEY = re.compile(rb"[0-9]{1,9}(?:\.[0-9]{1,12})?")
PICO_PER_USD = 10**12


def read_number(noted: Mapping[bytes, bytes], name: bytes, most: int) -> int:
    """A whole number from 1 on."""
    value = noted[name].strip()
    number = int(value) if value.isdigit() and len(value) <= MAX_DIGITS else 0
    if not 0 < number <= most:
        raise errors.bad_header(name.decode(), f"a whole number from 1 to {most}")
    return number


def read_money(noted: Mapping[bytes, bytes], name: bytes) -> int:
    """US dollars in the header, picodollars here."""
    value = noted[name].strip()
    pico_usd = int(Decimal(value.decode()) * PICO_PER_USD) if _MONEY.fullmatch(value) else 0
    if not pico_usd:
        raise errors.bad_header(name.decode(), "an amount of US dollars above 0, such as 0.25")
    return pico_usd

"""UUIDv7 (RFC 9562) from a given time and given random bits: sortable by time, made without looking at a clock."""


def uuid7(unix_time_s: float, random_bits: int) -> str:
    """`random_bits` supplies the low 74 bits (e.g. `random.getrandbits(74)`)."""
    milliseconds = int(unix_time_s * 1000) & 0xFFFF_FFFF_FFFF
    high = milliseconds << 16 | 0x7000 | (random_bits >> 62) & 0xFFF
    low = 0x8000_0000_0000_0000 | random_bits & 0x3FFF_FFFF_FFFF_FFFF
    text = (high << 64 | low).to_bytes(16, "big").hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

"""How much of a prompt is cached, and by which endpoints."""

PREFIX_LEVELS = 3
Level = tuple[int, int]
"""How many leading blocks, and the bit mask of the endpoints that have so many and no more."""


def merge_levels(some: list[Level], others: list[Level]) -> list[Level]:
    """The longest PREFIX_LEVELS of both; no endpoint is in both."""
    masks = dict(some)
    for count, mask in others:
        masks[count] = masks.get(count, 0) | mask
    return sorted(masks.items(), reverse=True)[:PREFIX_LEVELS]


def numbers_in(mask: int) -> list[int]:
    """Of the endpoints whose bits are set, the least first."""
    numbers = []
    while mask:
        bit = mask & -mask
        numbers.append(bit.bit_length() - 1)
        mask ^= bit
    return numbers

"""Booleans as vLLM's pydantic reads them: some words and numbers too."""

_TRUE_WORDS = frozenset(("true", "t", "yes", "y", "on", "1"))
_FALSE_WORDS = frozenset(("false", "f", "no", "n", "off", "0"))


def is_true(value: object) -> bool:
    if isinstance(value, str):
        return value.lower() in _TRUE_WORDS
    return value is True or value == 1


def is_flag(value: object) -> bool:
    """Whether it says yes or no at all; None says no."""
    if isinstance(value, str):
        return value.lower() in _TRUE_WORDS | _FALSE_WORDS
    return value is None or value in (0, 1)

from typing import Any

SECRET_WORDS = ("token", "secret", "password", "hash", "sha256", "key_text")
HIDDEN = "(hidden)"


def without_secrets(state: dict[str, Any]) -> dict[str, Any]:
    return {name: HIDDEN if _is_secret(name) else _clean(value) for name, value in state.items()}


def _clean(value: Any) -> Any:
    return without_secrets(value) if isinstance(value, dict) else value


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in SECRET_WORDS) and not name.endswith("_tokens")

"""What a change would make other, field by field. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

SHOWN_ONCE = frozenset({
    "key", "token", "agent_token", "link", "webhook_key", "make_line", "container_line", "systemd_unit",
})  # fmt: skip


def differences(before: Any, after: Any) -> list[dict[str, Any]]:
    """[{"field", "from", "to"}], in the order of names; a field that is missing on one side is null there."""
    return [{"field": name, "from": old, "to": new} for name, old, new in _walk(before, after, "")]


def without_shown_once(content: Any) -> Any:
    """A secret that was never stored is of no use to anybody, and would only mislead."""
    if not isinstance(content, Mapping):
        return content
    return {name: value for name, value in content.items() if name not in SHOWN_ONCE}


def _walk(before: Any, after: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted({*before, *after}):
            yield from _walk(before.get(name), after.get(name), f"{path}.{name}" if path else str(name))
    elif before is None and isinstance(after, Mapping) and not path:
        yield from _walk({}, after, path)
    elif before != after:
        yield path, before, after

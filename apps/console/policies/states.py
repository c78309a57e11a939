"""What each word for a state means to somebody who looks: ok, warning, breach or unknown. Pure."""

LEVELS = {
    "ok": ("ready", "online", "active", "completed", "serving", "done", "approved"),
    "warning": (
        "joining",
        "pending",
        "starting",
        "warming",
        "draining",
        "paused",
        "probed",
        "loading",
        "degraded",
        "client_left",
        "refused",
        "rejected",
        "progressing",
        "placed",
        "fetching",
    ),
    "breach": ("failed", "offline", "suspended", "stalled", "stuck"),
}
_LEVEL_OF_WORD = {word: level for level, words in LEVELS.items() for word in words}


def level_of(word: str) -> str:
    return _LEVEL_OF_WORD.get(word, "unknown")

from datetime import datetime, timedelta

SILENT_AFTER = timedelta(seconds=15)
SEEN_RESOLUTION = timedelta(seconds=5)


def is_silent(last_seen_at: datetime | None, now: datetime) -> bool:
    return last_seen_at is None or now - last_seen_at > SILENT_AFTER


def is_worth_writing(last_seen_at: datetime | None, now: datetime) -> bool:
    """A heartbeat each second is written to Postgres each 5 s at most."""
    return last_seen_at is None or now - last_seen_at >= SEEN_RESOLUTION

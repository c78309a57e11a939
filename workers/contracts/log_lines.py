"""Log lines of every process: `key=value` pairs on stderr, with anything that looks like a secret taken out."""

import json
import logging
import re
import sys
from datetime import UTC, datetime

# The password of a URL goes to its last @. Bounded, as what is searched may be anybody's.
_SECRET = re.compile(
    r"""
    (?P<url>://[^\s:/@]*:)[^\s"']{1,256}(?=@)
    | (?P<head>
        \bty[saijp]?-[A-Za-z0-9]{8}-             # our keys and tokens: the prefix may be shown
        | \b(?:Bearer|Basic)\s+
        | (?:password|secret|token)"?[=:]\s*"?
    )[^\s"',;&@]+""",
    re.IGNORECASE | re.VERBOSE,
)
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def without_secrets(text: str) -> str:
    return _SECRET.sub(lambda match: (match["url"] or match["head"]) + "***", text)


class LineFormatter(logging.Formatter):
    """Fields given as `extra=` follow the message, as the `request_id` does; a traceback follows the line."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        extra = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        fields = {
            "at": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **extra,
        }
        line = " ".join(f"{key}={_quoted(value)}" for key, value in fields.items())
        if record.exc_info and self.shows_traceback(record):
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return without_secrets(line)

    def shows_traceback(self, record: logging.LogRecord) -> bool:
        del record
        return True


def log_to_stderr() -> None:
    """Of a process of a node."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _quoted(value: object) -> str:
    """What would move a terminal's cursor, or begin another line for whoever reads it, is written as its number."""
    text = str(value)
    is_plain = text.isprintable()
    if is_plain and text and not re.search(r"[\s\"=]", text):
        return text
    return json.dumps(text, ensure_ascii=not is_plain)

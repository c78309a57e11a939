"""Log lines of the control plane's processes, as those of the nodes' are (workers/contracts/log_lines.py)."""

import logging

from django.http import HttpRequest

from workers.contracts.log_lines import LineFormatter as NodeLineFormatter
from workers.contracts.log_lines import without_secrets


class RedactSecrets(logging.Filter):
    """Of a request only method and path stay: an address may end with what signs somebody in, as a provider's code."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = without_secrets(record.getMessage()), None
        request = getattr(record, "request", None)
        if isinstance(request, HttpRequest):
            record.request = f"{request.method} {request.path}"
        return True


class LineFormatter(NodeLineFormatter):
    def shows_traceback(self, record: logging.LogRecord) -> bool:
        """Django hands over where a 403 or 404 was raised; the line says all of it."""
        return record.name != "django.request" or record.levelno >= logging.ERROR

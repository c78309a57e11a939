"""Letters through Django's mail backend. One that cannot be sent is logged without its text, which may hold a link."""

import logging
import smtplib
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.mail import send_mail
from django.core.mail.backends.filebased import EmailBackend as Files
from django.db import transaction

log = logging.getLogger(__name__)


class PrivateFiles(Files):
    """Letters hold links that sign in, so only the account that writes them opens their directory."""

    def __init__(self, *args: Any, **options: Any) -> None:
        directory = Path(settings.EMAIL_FILE_PATH)
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)
        super().__init__(*args, **options)


def send_on_commit(*, to: str, subject: str, text: str) -> None:
    transaction.on_commit(lambda: _send(to, subject, text))


def _send(to: str, subject: str, text: str) -> None:
    try:
        send_mail(" ".join(subject.split()), text, None, [to])
    except (OSError, smtplib.SMTPException) as error:
        log.warning("a letter was not sent", extra={"error": type(error).__name__})

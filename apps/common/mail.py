"""Letters through Django's mail backend. One that cannot be sent is logged without its text, which may hold a link."""

import logging
import smtplib

from django.core.mail import send_mail
from django.db import transaction

log = logging.getLogger(__name__)


def send_on_commit(*, to: str, subject: str, text: str) -> None:
    transaction.on_commit(lambda: _send(to, subject, text))


def _send(to: str, subject: str, text: str) -> None:
    try:
        send_mail(" ".join(subject.split()), text, None, [to])
    except (OSError, smtplib.SMTPException) as error:
        log.warning("a letter was not sent", extra={"error": type(error).__name__})

"""Letters through Django's mail backend. One that cannot be sent is logged without its text, which may hold a link.

They are written and sent beside the request: how long an answer takes must not tell whether there was somebody to write
to.
"""

import logging
import smtplib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

from django.conf import settings
from django.core.mail import send_mail
from django.core.mail.backends.filebased import EmailBackend as Files
from django.db import Error as DatabaseError
from django.db import connection, transaction

log = logging.getLogger(__name__)

MAX_WAITING = 200
_sender = ThreadPoolExecutor(max_workers=1, thread_name_prefix="letters")
_room = BoundedSemaphore(MAX_WAITING)


class PrivateFiles(Files):
    """Letters hold links that sign in, so only the account that writes them opens their directory."""

    def __init__(self, *args: Any, **options: Any) -> None:
        directory = Path(settings.EMAIL_FILE_PATH)
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)
        super().__init__(*args, **options)


def send_on_commit(*, to: str, subject: str, text: str) -> None:
    transaction.on_commit(lambda: _hand_over(lambda: _send(to, subject, text)))


def write_beside(write: Callable[[], None]) -> None:
    """What makes a letter, where even the time for that would tell who there is."""
    _hand_over(write if settings.LETTERS_AT_ONCE else lambda: _write(write))


def _hand_over(work: Callable[[], None]) -> None:
    if settings.LETTERS_AT_ONCE:
        work()
    elif _room.acquire(blocking=False):
        _sender.submit(work).add_done_callback(lambda _: _room.release())
    else:
        log.warning("a letter was not sent", extra={"error": "too many wait"})


def _write(write: Callable[[], None]) -> None:
    """With a connection of this thread's, which nobody else would close."""
    try:
        write()
    except DatabaseError as error:
        log.warning("a letter was not written", extra={"error": type(error).__name__})
    finally:
        connection.close()


def _send(to: str, subject: str, text: str) -> None:
    try:
        send_mail(" ".join(subject.split()), text, None, [to])
    except (OSError, smtplib.SMTPException) as error:
        log.warning("a letter was not sent", extra={"error": type(error).__name__})

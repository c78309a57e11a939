"""Waking a control loop without importing it. The loop's own timer is what makes the work sure."""

import logging

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)


def enqueue_on_commit(task_name: str) -> None:
    transaction.on_commit(lambda: enqueue(task_name))


def enqueue(task_name: str) -> None:
    """A broker that is away is not an error here: beat runs every loop again within 2 s."""
    try:
        current_app.send_task(task_name, queue="controller", retry=False, expires=30)
    except (OperationalError, OSError) as error:
        log.warning("could not wake a control loop", extra={"task": task_name, "error": str(error)})

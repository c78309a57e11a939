"""Waking a control loop or an agent without importing it. Their own timers are what makes the work sure.

controller: the loops of apps/*/tasks.py      node.<id>: the agent's (workers/agent)
"""

import logging
from uuid import UUID

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)

CONTROLLER = "controller"
EXPIRES_S = 30


def queue_of(node_id: UUID) -> str:
    return f"node.{node_id}"


def enqueue_on_commit(task_name: str, *args: str, queue: str = CONTROLLER) -> None:
    transaction.on_commit(lambda: enqueue(task_name, *args, queue=queue))


def enqueue(task_name: str, *args: str, queue: str = CONTROLLER) -> None:
    """A broker that is away is not an error here: every loop runs again within 2 s."""
    try:
        current_app.send_task(task_name, args=args, queue=queue, retry=False, expires=EXPIRES_S)
    except (OperationalError, OSError) as error:
        log.warning("could not wake a loop", extra={"task": task_name, "queue": queue, "error": str(error)})

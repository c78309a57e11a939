"""Waking a control loop or an agent without importing it. Their own timers are what makes the work sure.

controller: the loops of apps/*/tasks.py      node.<id>: the agent's (workers/agent)
"""

import logging
from uuid import UUID

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from apps.common.valkey import blocking_client

log = logging.getLogger(__name__)

CONTROLLER = "controller"
EXPIRES_S = 30
SOON_MS = 200


def queue_of(node_id: UUID) -> str:
    return f"node.{node_id}"


def enqueue_on_commit(task_name: str, *args: str, queue: str = CONTROLLER) -> None:
    transaction.on_commit(lambda: enqueue(task_name, *args, queue=queue))


def enqueue_soon_on_commit(task_name: str) -> None:
    """For what many do at once, as agents that come back: all who ask within a moment wake it once, at its end."""
    transaction.on_commit(lambda: enqueue_soon(task_name))


def enqueue_soon(task_name: str) -> None:
    try:
        is_first = blocking_client().set(f"tokenyard.soon:{task_name}", 1, nx=True, px=SOON_MS)
        if is_first:
            wait_s = SOON_MS / 1000
            current_app.send_task(task_name, queue=CONTROLLER, countdown=wait_s, retry=False, expires=EXPIRES_S)
    except (RedisError, OperationalError, OSError) as error:
        log.warning("could not wake a loop", extra={"task": task_name, "error": str(error)})


def enqueue(task_name: str, *args: str, queue: str = CONTROLLER) -> None:
    """A broker that is away is not an error here: every loop runs again within 2 s."""
    try:
        current_app.send_task(task_name, args=args, queue=queue, retry=False, expires=EXPIRES_S)
    except (OperationalError, OSError) as error:
        log.warning("could not wake a loop", extra={"task": task_name, "queue": queue, "error": str(error)})

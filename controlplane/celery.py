"""The controller's Celery application: `celery -A controlplane worker -Q controller --pool threads`."""

import os
from typing import Any

from celery import Celery, Task
from celery.app.amqp import AMQP
from django.conf import settings
from kombu import Connection

from apps.common.rows import every_tenant
from controlplane.starting import said_plainly

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.dev")

_LOOKS_AGAIN_S = {"interval_start": 0.2, "interval_step": 0.2, "interval_max": 1.0}


class LoopTask(Task):  # type: ignore[type-arg]  # generic in celery-types, and not in Celery
    """A control loop serves every tenant."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with every_tenant():
            return super().__call__(*args, **kwargs)


class EagerConnection(Connection):
    """Celery waits 2, 4, 6… seconds for a broker that is away, and no block holds until it has looked again."""

    def ensure_connection(self, *args: Any, **kwargs: Any) -> Any:
        return super().ensure_connection(*args, **(_LOOKS_AGAIN_S | kwargs))


class EagerAMQP(AMQP):
    Connection = EagerConnection


with said_plainly():
    installed = settings.INSTALLED_APPS  # reads all of them
app = Celery("tokenyard", task_cls=LoopTask, amqp=EagerAMQP)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(lambda: installed)

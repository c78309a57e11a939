"""The controller's Celery application: `celery -A controlplane worker -Q controller --pool threads`."""

import os
from typing import Any

from celery import Celery, Task
from django.conf import settings

from apps.common.rows import every_tenant

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.dev")


class LoopTask(Task):  # type: ignore[type-arg]  # generic in celery-types, and not in Celery
    """A control loop serves every tenant."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with every_tenant():
            return super().__call__(*args, **kwargs)


app = Celery("tokenyard", task_cls=LoopTask)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(lambda: settings.INSTALLED_APPS)

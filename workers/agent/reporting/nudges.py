"""Celery worker on the queue `node.<id>`. Its one task is a nudge: it says "look now", and the reconcile loop looks.

Losing one costs at most the second until the loop looks anyway, and what is wanted stands in the desired state, with
its fence and generation: late, doubled or out of order, a nudge does no harm. So tasks are acknowledged early and have
no results; and the worker runs in a thread of its own, made anew when it fails: without a broker there are no nudges,
and that is all.
"""

import logging
import threading
from collections.abc import Callable

from celery import Celery
from celery.worker import WorkController, state
from kombu import Queue

log = logging.getLogger(__name__)

RECONCILE_NOW = "agent.reconcile_now"

_REVIVAL_WAIT_S = 5.0
_THREADS = 2
# The supervisor and the controller address the worker by this name, wherever the node is.
_HOST = "127.0.0.1"


class Nudges:
    """`reconcile_now` is called in a thread of Celery's."""

    def __init__(self, broker_url: str, node_id: str, reconcile_now: Callable[[], None]) -> None:
        self._hostname = f"node.{node_id}@{_HOST}"
        self._app = build_app(broker_url, node_id)
        self._app.task(name=RECONCILE_NOW)(reconcile_now)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nudges", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        self._stopping.set()
        # Read by Celery's loops as "stop, with this exit status".
        setattr(state, "should_stop", 0)  # noqa: B010 - its stubs know only None
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._work()
            except (Exception, SystemExit):  # whatever Celery dies of, the agent must not
                log.exception("the Celery worker failed; a new one starts in %d s", _REVIVAL_WAIT_S)
            self._stopping.wait(_REVIVAL_WAIT_S)

    def _work(self) -> None:
        worker = WorkController(
            app=self._app,
            hostname=self._hostname,
            pool_cls="threads",
            concurrency=_THREADS,
            loglevel=logging.INFO,
            without_gossip=True,
            without_mingle=True,
        )
        worker.start()


def build_app(broker_url: str, node_id: str) -> Celery:
    # Without fixups: where Django's settings are named in the environment, Celery would load them here.
    app = Celery("tokenyard-agent", broker=broker_url, set_as_current=False, fixups=[])
    app.conf.update(
        task_queues=[Queue(f"node.{node_id}")],
        task_ignore_result=True,
        task_acks_late=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_connection_timeout=4,
        worker_hijack_root_logger=False,
        worker_prefetch_multiplier=1,
    )
    return app

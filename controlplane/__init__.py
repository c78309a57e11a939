"""Wiring only: settings, urls, asgi, wsgi, celery. The Celery application is imported here so that apps find it."""

from controlplane.celery import app as celery_app

__all__ = ["celery_app"]

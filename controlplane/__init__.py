"""Wiring of the control plane: settings, URLs, ASGI, Celery. No domain code."""

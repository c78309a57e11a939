"""One public port: HTTP by Django's WSGI application in threads, websockets by Channels."""

import os

from a2wsgi import WSGIMiddleware
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.dev")

WEB_THREADS = 8

http = WSGIMiddleware(get_wsgi_application(), workers=WEB_THREADS)  # type: ignore[arg-type]  # a response is iterable

from controlplane.sockets import application_of  # noqa: E402 - imports models, so only after Django is set up

application = application_of(http)

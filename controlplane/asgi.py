"""One public port: HTTP by Django's WSGI application in threads, websockets by Channels."""

import os
from random import SystemRandom

from a2wsgi import WSGIMiddleware
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.dev")

WEB_THREADS = 8

wsgi = get_wsgi_application()
http = WSGIMiddleware(wsgi, workers=WEB_THREADS)  # type: ignore[arg-type]  # a response is iterable

from apps.rest.consumers.watch import WatchApp  # noqa: E402 - imports models, so only after Django is set up
from controlplane.sockets import application_of  # noqa: E402 - likewise

application = application_of(http, WatchApp(wsgi.get_response, SystemRandom()))

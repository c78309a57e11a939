"""One public port: HTTP by Django's WSGI application in threads, websockets by Channels."""

import os
from random import SystemRandom

from a2wsgi import WSGIMiddleware
from django.core.wsgi import get_wsgi_application

from controlplane.starting import said_plainly

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.dev")

WEB_THREADS = 8

with said_plainly():
    wsgi = get_wsgi_application()
from apps.common.parsing import BIGGEST_BODY_BYTES  # noqa: E402 - only after Django is set up
from apps.rest.consumers.watch import WatchApp  # noqa: E402 - likewise
from controlplane.slow_clients import SlowClients  # noqa: E402 - likewise
from controlplane.sockets import application_of  # noqa: E402 - likewise

threads = WSGIMiddleware(wsgi, workers=WEB_THREADS)  # type: ignore[arg-type]  # a response is iterable
http = SlowClients(threads, most_body_bytes=BIGGEST_BODY_BYTES)
application = application_of(http, WatchApp(wsgi.get_response, SystemRandom()))

from collections.abc import Callable
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse

Respond = Callable[[HttpRequest], HttpResponse]


def content_security_policy(get_response: Respond) -> Respond:
    """No inline script anywhere; the browser talks to us and, from the playground, to the gateway."""
    header = policy_header(settings.WEB_URL, settings.GATEWAY_URL)

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.headers.setdefault("Content-Security-Policy", header)
        return response

    return middleware


def policy_header(web_url: str, gateway_url: str) -> str:
    web = urlsplit(web_url)
    socket = f"{'wss' if web.scheme == 'https' else 'ws'}://{web.netloc}"
    directives = {
        "default-src": "'self'",
        "script-src": "'self'",
        # htmx and uPlot set style attributes while they run.
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data:",
        "connect-src": f"'self' {socket} {gateway_url}",
        "frame-ancestors": "'none'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "object-src": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in directives.items())

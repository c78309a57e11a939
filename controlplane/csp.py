from collections.abc import Callable
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse

API_DOCS = "/api/docs/"  # Swagger UI's own page carries a style sheet in its head

Respond = Callable[[HttpRequest], HttpResponse]


def content_security_policy(get_response: Respond) -> Respond:
    """Nothing inline anywhere; the browser talks to us and, from the playground, to the gateway."""
    header = policy_header(settings.WEB_URL, settings.GATEWAY_URL)
    header_of_api_docs = policy_header(settings.WEB_URL, settings.GATEWAY_URL, styles="'self' 'unsafe-inline'")

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        is_api_docs = request.path.startswith(API_DOCS)
        response.headers["Content-Security-Policy"] = header_of_api_docs if is_api_docs else header
        return response

    return middleware


def policy_header(web_url: str, gateway_url: str, *, styles: str = "'self'") -> str:
    web = urlsplit(web_url)
    socket = f"{'wss' if web.scheme == 'https' else 'ws'}://{web.netloc}"
    directives = {
        "default-src": "'self'",
        "script-src": "'self'",
        "style-src": styles,
        "img-src": "'self' data:",
        "connect-src": f"'self' {socket} {gateway_url}",
        "frame-ancestors": "'none'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "object-src": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in directives.items())

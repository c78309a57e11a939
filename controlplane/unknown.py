from collections.abc import Callable
from http import HTTPStatus

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.loader import get_template
from django.views.defaults import server_error
from rest_framework.exceptions import NotFound
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.common.problems import CONTENT_TYPE, problem

Respond = Callable[[HttpRequest], HttpResponse]
UNKNOWN_HOST = (
    "this control plane does not answer by the name that was asked for; an operator adds it to TOKENYARD_ALLOWED_HOSTS"
)


class UnknownPathView(APIView):
    """A program that mistyped a path gets problem+json, not a page."""

    permission_classes = [AllowAny]
    schema = None

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:  # noqa: ARG002 - DRF's signature
        raise NotFound("no such path; /api/docs/ lists them")


def failed(request: HttpRequest) -> HttpResponseBase:
    """Django's handler of what no view foresaw: for a program a problem, for a person a page."""
    if not _is_program(request):
        return server_error(request)
    return _problem(500, "internal", "something broke on our side; the log of web says what")


def refused(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """What Django refuses before any view is asked: a host it does not answer for, an address it cannot read."""
    why = UNKNOWN_HOST if isinstance(exception, DisallowedHost) else ""
    if _is_program(request):
        return _problem(400, "invalid_input", why or "the request cannot be read")
    return HttpResponseBadRequest(get_template("400.html").render({"why": why}))


def show_what_is_not_allowed(get_response: Respond) -> Respond:
    """Django refuses a method with an empty page; a person gets one in the console's own form."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if response.status_code != HTTPStatus.METHOD_NOT_ALLOWED or _is_program(request):
            return response
        page = render(request, "405.html", status=response.status_code)
        page["Allow"] = response["Allow"]
        return page

    return middleware


def _is_program(request: HttpRequest) -> bool:
    return request.path.startswith("/api/")


def _problem(status: int, code: str, detail: str) -> JsonResponse:
    return JsonResponse(problem(status, code, detail).data, status=status, content_type=CONTENT_TYPE)

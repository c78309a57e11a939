from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.views.defaults import server_error
from rest_framework.exceptions import NotFound
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.common.problems import CONTENT_TYPE, problem


class UnknownPathView(APIView):
    """A program that mistyped a path gets problem+json, not a page."""

    permission_classes = [AllowAny]
    schema = None

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:  # noqa: ARG002 - DRF's signature
        raise NotFound("no such path; /api/docs/ lists them")


def failed(request: HttpRequest) -> HttpResponseBase:
    """Django's handler of what no view foresaw: for a program a problem, for a person a page."""
    if not request.path.startswith("/api/"):
        return server_error(request)
    body = problem(500, "internal", "something broke on our side; the log of web says what").data
    return JsonResponse(body, status=500, content_type=CONTENT_TYPE)

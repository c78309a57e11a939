from rest_framework.exceptions import NotFound
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.views import APIView


class UnknownPathView(APIView):
    """A program that mistyped a path gets problem+json, not a page."""

    permission_classes = [AllowAny]
    schema = None

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:  # noqa: ARG002 - DRF's signature
        raise NotFound("no such path; /api/docs/ lists them")

"""Signing in and out, the start page, and the command palette."""

from django.contrib.auth.views import LoginView
from django.http import HttpResponseBase, JsonResponse
from django.shortcuts import redirect

from apps.console.access import ConsoleRequest, everybody, page
from apps.console.navigation import home_of
from apps.console.palette import list_entries


class SignIn(LoginView):
    template_name = "console/pages/sign_in.html"
    redirect_authenticated_user = True


@page(everybody)
def home(request: ConsoleRequest) -> HttpResponseBase:
    return redirect(home_of(request.actor))


@page(everybody)
def palette(request: ConsoleRequest) -> HttpResponseBase:
    return JsonResponse({"entries": list_entries(actor=request.actor)})

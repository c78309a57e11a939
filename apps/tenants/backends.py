from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.db.models import Q
from django.http import HttpRequest

from apps.tenants.models import User


class NameOrEmailBackend(ModelBackend):
    """Sign-in by username or by email; an address belongs to one user at most."""

    def authenticate(
        self,
        request: HttpRequest | None,  # noqa: ARG002 - Django's signature
        username: str | None = None,
        password: str | None = None,
        **_: Any,
    ) -> User | None:
        if not username or password is None or "\x00" in username:
            return None
        user = User.objects.filter(Q(username=username) | Q(email__iexact=username)).order_by("username").first()
        if user is None:
            User().set_password(password)  # as long as for a user there is
            return None
        return user if user.check_password(password) and self.user_can_authenticate(user) else None

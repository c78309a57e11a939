from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in


class IdentityConfig(AppConfig):
    name = "apps.identity"

    def ready(self) -> None:
        from apps.identity.middleware import session_began  # noqa: PLC0415 - models are not loaded before

        user_logged_in.connect(session_began, dispatch_uid="identity.session_began")

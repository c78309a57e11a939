from django.apps import AppConfig
from django.db.models.signals import post_migrate


class RestConfig(AppConfig):
    name = "apps.rest"

    def ready(self) -> None:
        from apps.rest.services.triggers import watch_tables  # noqa: PLC0415 - models are not loaded before

        post_migrate.connect(watch_tables, sender=self, dispatch_uid="rest.watch_tables")

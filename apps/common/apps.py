from typing import Any

from django.apps import AppConfig
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate

from apps.common.rows import tell_postgres


class CommonConfig(AppConfig):
    name = "apps.common"

    def ready(self) -> None:
        from apps.common.row_security import secure_tables  # noqa: PLC0415 - settings are not read before

        connection_created.connect(_watch, dispatch_uid="common.tell_postgres")
        post_migrate.connect(secure_tables, sender=self, dispatch_uid="common.secure_tables")


def _watch(connection: Any, **_: Any) -> None:
    """Not the connection that creates databases, which no transaction may do."""
    if connection.alias == "default" and tell_postgres not in connection.execute_wrappers:
        connection.execute_wrappers.append(tell_postgres)

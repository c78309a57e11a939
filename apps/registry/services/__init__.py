from apps.registry.services.catalogue import (
    change_engine,
    checked_engine_args,
    create_model,
    create_version,
    delete_model,
    delete_version,
    describe_version,
    draft_version,
)
from apps.registry.services.facts import Facts
from apps.registry.services.hub import fetch_facts
from apps.registry.services.stores import checked_source

__all__ = [
    "Facts",
    "change_engine",
    "checked_engine_args",
    "checked_source",
    "create_model",
    "create_version",
    "delete_model",
    "delete_version",
    "describe_version",
    "draft_version",
    "fetch_facts",
]

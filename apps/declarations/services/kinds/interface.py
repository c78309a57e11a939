"""What can be declared: one class for each kind of document. `catalogue.py` has them in the order of dependency."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar

from django.db.models import Model
from rest_framework.serializers import Serializer

from apps.common.actors import Actor
from apps.tenants.matrix import Permission

Row = TypeVar("Row", bound=Model)
Spec = dict[str, Any]


@dataclass(frozen=True)
class By:
    """Who applies, and when."""

    actor: Actor
    now: datetime


class Kind(Generic[Row]):
    """`spec` reads a document's fields; `fixed` are those that do not change once the thing is there.

    `names` are the fields that say which thing it is. Specs are plain data, as a document would write them.
    """

    name: ClassVar[str]
    permission: ClassVar[Permission] = Permission.OPERATE
    spec: ClassVar[type[Serializer[Any]]]
    names: ClassVar[tuple[str, ...]] = ("name",)
    fixed: ClassVar[frozenset[str]] = frozenset()
    is_kept: ClassVar[bool] = False  # is never removed

    def title(self, spec: Mapping[str, Any]) -> str:
        return str(spec["name"])

    def find(self, spec: Mapping[str, Any], by: By) -> Row | None:
        raise NotImplementedError

    def find_by_title(self, title: str, by: By) -> Row | None:
        return self.find({"name": title}, by)

    def plain(self, checked: Mapping[str, Any]) -> Spec:
        """What a document says, in the words of `shown`."""
        return dict(checked)

    def shown(self, row: Row, by: By) -> Spec:
        """As a document would say it."""
        raise NotImplementedError

    def is_same(self, field: str, asked: Any, there: Any) -> bool:  # noqa: ARG002 - some kinds look at the field
        """Whether a document asks for what is there already."""
        return bool(asked == there)

    def create(self, spec: Spec, by: By) -> None:
        raise NotImplementedError

    def change(self, row: Row, spec: Spec, changed: frozenset[str], by: By) -> None:
        """`spec` is all of it, as it shall be."""
        raise NotImplementedError

    def remove(self, row: Row, by: By) -> str:
        """What is still to come, "" when it is gone."""
        raise NotImplementedError

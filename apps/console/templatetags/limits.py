"""Amounts of limits in the unit of their kind."""

from uuid import UUID

from django import template

from apps.common.ids import read_uuid
from apps.limits.models import Limit
from apps.limits.policies import shown_amount

register = template.Library()


@register.filter
def subject_name(names: dict[UUID, str] | str | None, subject: str) -> str:
    """What a key or member is called, where `names` knows it; an end user's name is the subject itself."""
    identity = read_uuid(subject)
    return names.get(identity, subject) if isinstance(names, dict) and identity is not None else subject


@register.simple_tag
def limit_amount(limit: Limit, units: int) -> str:
    return shown_amount(limit.kind, units)

"""Amounts of limits in the unit of their kind."""

from django import template

from apps.limits.models import Limit
from apps.limits.policies import shown_amount

register = template.Library()


@register.simple_tag
def limit_amount(limit: Limit, units: int) -> str:
    return shown_amount(limit.kind, units)

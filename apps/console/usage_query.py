"""What the address of a usage page asks for. Every value may be wrong: then the domain or this module refuses it."""

from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import urlencode
from uuid import UUID

from django.http import QueryDict
from django.utils.timezone import get_current_timezone_name

from apps.common.actors import Actor
from apps.common.errors import InvalidInputError
from apps.console.policies.periods import Period, period_for, zone_named
from apps.usage.selectors.reports import scope_for
from apps.usage.selectors.sums import UsageScope


@dataclass(frozen=True)
class UsageQuery:
    period: Period
    tenant_id: UUID | None
    user_id: UUID | None
    key_id: UUID | None
    public_model: str
    version_id: UUID | None = None
    end_user: str = ""
    workflow_id: str = ""

    def scope(self, actor: Actor, period: Period | None = None) -> UsageScope:
        chosen = period or self.period
        return scope_for(
            actor=actor,
            start=chosen.start,
            end=chosen.end,
            tenant_id=self.tenant_id,
            user_id=self.user_id,
            key_id=self.key_id,
            public_model=self.public_model,
            version_id=self.version_id,
            end_user=self.end_user,
            workflow_id=self.workflow_id,
        )

    def as_api_query(self, **more: str) -> str:
        """The same question to the REST API, as a query string."""
        asked = {
            "zone": self.period.zone.key,
            "start": self.period.start.isoformat(),
            "end": self.period.end.isoformat(),
            "tenant": self.tenant_id,
            "user": self.user_id,
            "key": self.key_id,
            "model": self.public_model,
            "version": self.version_id,
            "end_user": self.end_user,
            "workflow": self.workflow_id,
            **more,
        }
        return urlencode({name: value for name, value in asked.items() if value})


def read_usage_query(params: QueryDict, *, now: datetime) -> UsageQuery:
    zone = zone_named(params.get("tz") or get_current_timezone_name())
    first, last = params.get("first", ""), params.get("last", "")
    return UsageQuery(
        period=period_for(name=params.get("range", ""), first=first, last=last, zone=zone, now=now),
        tenant_id=read_id(params, "tenant"),
        user_id=read_id(params, "user"),
        key_id=read_id(params, "key"),
        public_model=read_text(params, "model"),
        version_id=read_id(params, "version"),
        end_user=read_text(params, "end_user"),
        workflow_id=read_text(params, "workflow"),
    )


@dataclass(frozen=True)
class Span:
    """A part of the page's days, to the moment, as marked in a chart. None leaves that end where the days have it."""

    since: datetime | None = None
    until: datetime | None = None

    def of(self, scope: UsageScope) -> UsageScope:
        start, end = max(scope.start, self.since or scope.start), min(scope.end, self.until or scope.end)
        return replace(scope, start=start, end=end)


def read_span(params: QueryDict) -> Span:
    return Span(_read_moment(params, "since"), _read_moment(params, "until"))


def _read_moment(params: QueryDict, name: str) -> datetime | None:
    text = params.get(name, "")
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError as error:
        raise InvalidInputError(f"{name} is not a moment", fields={name: "is no ISO 8601 date and time"}) from error
    if found is not None and found.tzinfo is None:
        raise InvalidInputError(f"{name} names no time zone", fields={name: "needs an offset, like 09:00:00Z"})
    return found


def read_text(params: QueryDict, name: str) -> str:
    """Postgres takes no NUL, so nothing that holds one can be found."""
    return params.get(name, "").replace("\x00", "").strip()


def read_id(params: QueryDict, name: str) -> UUID | None:
    text = params.get(name, "")
    try:
        return UUID(text) if text else None
    except ValueError as error:
        raise InvalidInputError(f"{name} is not an id", fields={name: "is not an id"}) from error

"""Service classes, SLO profiles, tenants, their limits, and prices."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from rest_framework import serializers

from apps.common.errors import ConflictError, InvalidInputError
from apps.declarations.services.kinds.interface import By, Kind, Spec
from apps.declarations.services.kinds.serving import model_named, reference, version_named
from apps.limits.models import Kind as LimitKind
from apps.limits.models import Limit, Scope
from apps.limits.policies import amount_of, setter_of, units_of
from apps.limits.serializers import LimitFieldsSerializer
from apps.limits.services import limits
from apps.quotas import services as quotas
from apps.quotas.models import MAX_WEIGHT, MIN_WEIGHT, ServiceClass, SLOProfile
from apps.quotas.selectors import find_policy, get_service_class, get_slo_profile
from apps.quotas.serializers import BIGGEST_INTEGER, ServiceClassSerializer, SLOProfileSerializer
from apps.registry.models import Model, ModelVersion
from apps.tenants.matrix import Permission
from apps.tenants.models import Tenant
from apps.tenants.services import remove_tenant
from apps.usage.models import PriceEntry
from apps.usage.serializers.prices import NewPriceSerializer
from apps.usage.services.prices import PRICE_FIELDS, set_price
from workers.contracts.snapshot import Price

_POLICY = ("service_class", "slo_profile", "weight", "max_queued_requests")


class ServiceClasses(Kind[ServiceClass]):
    name = "ServiceClass"
    spec = ServiceClassSerializer
    fixed = frozenset({"rank"})
    is_kept = True

    def find(self, spec: Mapping[str, Any], by: By) -> ServiceClass | None:  # noqa: ARG002 - the interface's
        return ServiceClass.objects.filter(name=spec["name"]).first()

    def shown(self, row: ServiceClass, by: By) -> Spec:  # noqa: ARG002 - likewise
        return {"name": row.name, "rank": row.rank}

    def create(self, spec: Spec, by: By) -> None:
        quotas.create_service_class(actor=by.actor, now=by.now, **spec)


class SLOProfiles(Kind[SLOProfile]):
    name = "SLOProfile"
    spec = SLOProfileSerializer
    fixed = frozenset({"ttft_ms", "tpot_ms"})
    is_kept = True

    def find(self, spec: Mapping[str, Any], by: By) -> SLOProfile | None:  # noqa: ARG002 - the interface's
        return SLOProfile.objects.filter(name=spec["name"]).first()

    def shown(self, row: SLOProfile, by: By) -> Spec:  # noqa: ARG002 - likewise
        return {"name": row.name, "ttft_ms": row.ttft_ms, "tpot_ms": row.tpot_ms}

    def create(self, spec: Spec, by: By) -> None:
        quotas.create_slo_profile(actor=by.actor, now=by.now, **spec)


class TenantSpec(serializers.Serializer[Any]):
    """A tenant below another is named by its path: organisation/team/project. It is served as its parent is."""

    name = serializers.RegexField(r"^[-\w]{1,63}(/[-\w]{1,63}){0,2}$")
    service_class = serializers.SlugField(required=False)
    slo_profile = serializers.SlugField(required=False)
    weight = serializers.FloatField(required=False, min_value=MIN_WEIGHT, max_value=MAX_WEIGHT)
    max_queued_requests = serializers.IntegerField(required=False, min_value=0, max_value=BIGGEST_INTEGER)


class Tenants(Kind[Tenant]):
    name = "Tenant"
    permission = Permission.MANAGE_TENANT
    spec = TenantSpec

    def find(self, spec: Mapping[str, Any], by: By) -> Tenant | None:  # noqa: ARG002 - the interface's
        return find_tenant(spec["name"])

    def shown(self, row: Tenant, by: By) -> Spec:  # noqa: ARG002 - likewise
        policy = find_policy(row.pk)
        served: Spec = {"weight": policy.weight, "max_queued_requests": policy.max_queued_requests} if policy else {}
        if policy:
            served |= {"service_class": policy.service_class.name, "slo_profile": policy.slo_profile.name}
        return {"name": row.full_name} | served

    def create(self, spec: Spec, by: By) -> None:
        above, _, name = spec["name"].rpartition("/")
        if above:
            tenant = quotas.open_tenant_below(actor=by.actor, parent=tenant_named(above), name=name, now=by.now)
            given = {field: spec[field] for field in _POLICY if field in spec}
            if given:
                self.change(tenant, self.shown(tenant, by) | given, frozenset(given), by)
            return
        for field in ("service_class", "slo_profile"):
            if field not in spec:
                raise InvalidInputError(f"a tenant needs a {field}", fields={field: "is required"})
        quotas.open_tenant(actor=by.actor, name=name, now=by.now, **_policy_of(spec))

    def change(self, row: Tenant, spec: Spec, changed: frozenset[str], by: By) -> None:  # noqa: ARG002 - the interface's
        quotas.set_tenant_policy(actor=by.actor, tenant=row, now=by.now, **_policy_of(spec))

    def remove(self, row: Tenant, by: By) -> str:
        remove_tenant(actor=by.actor, tenant=row, now=by.now)
        return ""


class LimitSpec(LimitFieldsSerializer):
    """`limit` is which: requests_per_minute, … Without a tenant it is the default of every tenant."""

    tenant = serializers.CharField(max_length=200, required=False, allow_null=True, default=None)
    limit = serializers.ChoiceField(choices=LimitKind.choices)
    scope = serializers.ChoiceField(choices=Scope.choices, default="tenant")
    subject = serializers.CharField(required=False, allow_blank=True, max_length=256, default="")
    model = serializers.CharField(required=False, allow_blank=True, max_length=200, default="")


class Limits(Kind[Limit]):
    name = "Limit"
    permission = Permission.MANAGE_TENANT
    spec = LimitSpec
    names = ("limit",)

    def title(self, spec: Mapping[str, Any]) -> str:
        parts = [spec.get("tenant") or "*", spec.get("scope", "tenant"), spec.get("subject", "")]
        return " ".join([*parts, spec.get("model", ""), spec["limit"]])

    def find(self, spec: Mapping[str, Any], by: By) -> Limit | None:
        tenant = find_tenant(spec["tenant"]) if spec.get("tenant") else None
        if spec.get("tenant") and tenant is None:
            return None
        return Limit.objects.filter(
            tenant=tenant,
            setter=setter_of(by.actor),
            scope=spec.get("scope", "tenant"),
            subject=spec.get("subject", ""),
            public_model=spec.get("model", ""),
            kind=spec["limit"],
        ).first()

    def find_by_title(self, title: str, by: By) -> Limit | None:
        tenant, scope, subject, model, limit = title.split(" ")
        named = {"scope": scope, "subject": subject, "model": model, "limit": limit}
        return self.find(named | {"tenant": None if tenant == "*" else tenant}, by)

    def plain(self, checked: Mapping[str, Any]) -> Spec:
        spec = dict(checked)
        if "amount" in spec:
            spec["amount"] = _amount(spec["limit"], spec["amount"])
        return spec

    def shown(self, row: Limit, by: By) -> Spec:  # noqa: ARG002 - the interface's
        return {
            "tenant": row.tenant.full_name if row.tenant else None,
            "limit": row.kind,
            "scope": row.scope,
            "subject": row.subject,
            "model": row.public_model,
            "amount": f"{amount_of(row.kind, row.amount):f}",
            "burst": row.burst,
            "soft_percent": row.soft_percent,
        }

    def create(self, spec: Spec, by: By) -> None:
        limits.set_limit(
            actor=by.actor,
            tenant=tenant_named(spec["tenant"]) if spec.get("tenant") else None,
            scope=spec["scope"],
            kind=spec["limit"],
            amount=Decimal(spec["amount"]),
            subject=spec["subject"],
            public_model=spec["model"],
            burst=spec.get("burst"),
            soft_percent=spec.get("soft_percent"),
            now=by.now,
        )

    def change(self, row: Limit, spec: Spec, changed: frozenset[str], by: By) -> None:  # noqa: ARG002 - the interface's
        self.create(spec, by)

    def remove(self, row: Limit, by: By) -> str:
        limits.remove_limit(actor=by.actor, limit=row, now=by.now)
        return ""


class PriceSpec(NewPriceSerializer):
    version = reference(required=False, allow_null=True, default=None)
    model = serializers.SlugField(max_length=63, required=False, allow_null=True, default=None)
    version_id = None  # type: ignore[assignment]  # documents name versions
    model_id = None  # type: ignore[assignment]  # likewise


class Prices(Kind[PriceEntry]):
    """Lines of the price book are never changed or removed: another price is a new line, from now or its own time."""

    name = "Price"
    permission = Permission.SET_PRICES
    spec = PriceSpec
    names = ()
    is_kept = True

    def title(self, spec: Mapping[str, Any]) -> str:
        if bool(spec.get("version")) == bool(spec.get("model")):
            raise InvalidInputError("a price is for a version or for a model", fields={"version": "or model, one"})
        return f"version {spec['version']}" if spec.get("version") else f"model {spec['model']}"

    def find(self, spec: Mapping[str, Any], by: By) -> PriceEntry | None:
        """The line in force, or the newest that begins at the document's own time."""
        version, model = _priced(spec)
        if version is None and model is None:
            return None
        lines = PriceEntry.objects.filter(version=version, model=model).order_by("effective_from", "id")
        wanted = spec.get("effective_from") or by.now
        return lines.filter(effective_from__lte=wanted).last()

    def shown(self, row: PriceEntry, by: By) -> Spec:  # noqa: ARG002 - the interface's
        amounts = {name: getattr(row, name) for name in PRICE_FIELDS} | {"batch_discount_bp": row.batch_discount_bp}
        named = {"version": str(row.version) if row.version else None, "model": row.model.name if row.model else None}
        return amounts | named

    def create(self, spec: Spec, by: By) -> None:
        set_price(
            actor=by.actor,
            version=version_named(spec["version"]) if spec.get("version") else None,
            model=model_named(spec["model"]) if spec.get("model") else None,
            price=Price(**{name: spec[name] for name in PRICE_FIELDS}),
            batch_discount_bp=spec["batch_discount_bp"],
            effective_from=spec.get("effective_from") or by.now,
            now=by.now,
        )

    def change(self, row: PriceEntry, spec: Spec, changed: frozenset[str], by: By) -> None:  # noqa: ARG002 - likewise
        self.create(spec, by)


def find_tenant(path: str) -> Tenant | None:
    """A removed one only names what it used: who has its name now is another."""
    found: Tenant | None = None
    for name in path.split("/"):
        present = Tenant.objects.present().select_related("parent__parent")
        found = present.filter(parent=found, name=name).first()
        if found is None:
            return None
    return found


def tenant_named(path: str) -> Tenant:
    found = find_tenant(path)
    if found is None:
        raise ConflictError(f"no tenant {path!r}", fields={"tenant": f"no tenant {path!r}"})
    return found


def _policy_of(spec: Spec) -> dict[str, Any]:
    return {name: spec[name] for name in _POLICY if name in spec} | {
        "service_class": get_service_class(spec["service_class"]),
        "slo_profile": get_slo_profile(spec["slo_profile"]),
    }


def _amount(kind: str, amount: Decimal) -> str:
    units = units_of(kind, amount)
    if units is None:
        raise InvalidInputError("amount: a whole number, or dollars", fields={"amount": "out of range or not whole"})
    return f"{amount_of(kind, units):f}"


def _priced(spec: Mapping[str, Any]) -> tuple[ModelVersion | None, Model | None]:
    if spec.get("version"):
        model, _, label = spec["version"].partition(":")
        return ModelVersion.objects.filter(model__name=model, label=label).first(), None
    return None, Model.objects.filter(name=spec.get("model")).first()

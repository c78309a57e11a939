"""What a tenant may ask for, and what it pays for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from apps.quotas.selectors import find_policy
from apps.registry.models import ModelVersion
from apps.routing.models import Route
from apps.routing.selectors.routes import list_routes
from apps.tenants.models import Tenant
from apps.usage.policies.pricing import Book, usd_from_pico
from apps.usage.selectors.prices import load_book

GENERATE = "generate"
_TOKENS_PER_PRICE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a version answers for: in US dollars per million tokens, its tenant's discounts included. None: no price."""

    version: ModelVersion
    input_usd: Decimal | None = None
    cached_usd: Decimal | None = None
    output_usd: Decimal | None = None
    request_usd: Decimal | None = None


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A public name. Several versions may answer for it, each at its own price."""

    name: str
    task: str
    terms: Sequence[Terms]


def list_offers(*, tenant: Tenant, now: datetime) -> list[Offer]:
    book, policy = load_book(), find_policy(tenant.pk)
    service_class = policy.service_class.name if policy else ""
    return [_offer(route, book, tenant, service_class, now) for route in list_routes() if route.targets.all()]


def _offer(route: Route, book: Book, tenant: Tenant, service_class: str, now: datetime) -> Offer:
    versions = [
        target.version for target in route.targets.all() if target.weight or target.alternative_rank is not None
    ]
    return Offer(
        name=route.public_name,
        task=next(target.version.model.task for target in route.targets.all()),
        terms=[_terms(version, book, tenant, service_class, now) for version in versions],
    )


def _terms(version: ModelVersion, book: Book, tenant: Tenant, service_class: str, now: datetime) -> Terms:
    tariff = book.tariff(version.pk, tenant.pk, service_class, now)
    if tariff is None:
        return Terms(version=version)
    price = tariff.price
    return Terms(
        version=version,
        input_usd=usd_from_pico(price.input_pico_usd * _TOKENS_PER_PRICE),
        cached_usd=usd_from_pico(price.cached_input_pico_usd * _TOKENS_PER_PRICE),
        output_usd=usd_from_pico(price.output_pico_usd * _TOKENS_PER_PRICE),
        request_usd=usd_from_pico(price.request_pico_usd),
    )

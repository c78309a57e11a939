"""Every kind, each after those that it may refer to."""

from typing import Any

from apps.declarations.services.kinds.interface import Kind
from apps.declarations.services.kinds.serving import Deployments, Models, Routes, Versions
from apps.declarations.services.kinds.tenancy import Limits, Prices, ServiceClasses, SLOProfiles, Tenants

CATALOGUE: dict[str, Kind[Any]] = {
    kind.name: kind
    for kind in (
        ServiceClasses(), SLOProfiles(), Tenants(), Models(), Versions(), Deployments(), Routes(), Limits(), Prices(),
    )
}  # fmt: skip
RANKS = {name: rank for rank, name in enumerate(CATALOGUE)}

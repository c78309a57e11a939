"""A snapshot, indexed for the look-ups of a request."""

import hmac
from collections.abc import Callable
from hashlib import sha256

from workers.contracts.snapshot import KeyGrant, Route, Snapshot, TenantPolicy, Version
from workers.gateway.snapshots.networks import Address, Ranges
from workers.scheduling.split import WeightedSplit


class Grant:
    """Who a key stands for. `models`, `paths` and `networks` are None when the key may use every one.

    Limits are None where there are none. What each request asks of the key and its tenant has a name of its own here.
    """

    __slots__ = (
        "expires_at",
        "key",
        "key_id",
        "max_queued_requests",
        "models",
        "networks",
        "paths",
        "rank",
        "service_class",
        "tenant",
        "tenant_id",
        "tpot_slo_s",
        "ttft_slo_s",
        "user_id",
        "weight",
    )

    def __init__(
        self,
        *,
        key: KeyGrant,
        tenant: TenantPolicy,
        rank: int,
        models: frozenset[str] | None,
        paths: frozenset[bytes] | None = None,
        networks: Ranges | None = None,
        ttft_slo_s: float | None = None,
        tpot_slo_s: float | None = None,
    ) -> None:
        self.key = key
        self.key_id = key.key_id
        self.user_id = key.user_id
        self.expires_at = key.expires_at
        self.tenant = tenant
        self.tenant_id = tenant.tenant_id
        self.service_class = tenant.service_class
        self.weight = tenant.weight
        self.max_queued_requests = tenant.max_queued_requests
        self.rank = rank
        self.models = models
        self.paths = paths
        self.networks = networks
        self.ttft_slo_s = ttft_slo_s
        self.tpot_slo_s = tpot_slo_s

    def may_ask(self, path: bytes) -> bool:
        return self.paths is None or path in self.paths

    def may_come_from(self, address: Address | None) -> bool:
        return self.networks is None or (address is not None and address in self.networks)


class Directory:
    """Immutable but for the memory of its splits, which is carried over from `previous` where a route is unchanged.

    `alternatives` are the versions that may answer in place of one, by public name and version id.
    """

    def __init__(self, snapshot: Snapshot, previous: "Directory | None" = None) -> None:
        self.snapshot = snapshot
        self.versions: dict[str, Version] = {version.version_id: version for version in snapshot.versions}
        self.routes: dict[str, Route] = {route.public_name: route for route in snapshot.routes}
        self.cors_origins = frozenset(origin.encode() for origin in snapshot.cors_origins)
        self.trusted_proxies = Ranges(snapshot.trusted_proxies)
        self.media_hosts = frozenset(host.lower() for host in snapshot.media_hosts)
        self.gateway_urls = {one.node_id: one.url for one in snapshot.gateways}
        self.has_other_nodes = len(self.gateway_urls) > 1
        self.class_names = {item.rank: item.name for item in snapshot.service_classes}
        self.lowest_rank = max(self.class_names, default=0)
        self._ranks = {item.name: item.rank for item in snapshot.service_classes}
        self._grants = _index_grants(snapshot)
        self._grants_by_id = {grant.key_id: grant for grant in self._grants.values()}
        self.alternatives = _index_alternatives(snapshot.routes, self.versions)
        self._splits = {route.public_name: self._split_of(route, previous) for route in snapshot.routes}

    def reweighed_since(self, previous: "Directory | None") -> list[TenantPolicy]:
        """Tenants whose weight was edited."""
        weights = {tenant.tenant_id: tenant.weight for tenant in previous.snapshot.tenants} if previous else {}
        return [
            tenant for tenant in self.snapshot.tenants if weights.get(tenant.tenant_id, tenant.weight) != tenant.weight
        ]

    def find_grant(self, key: bytes, unix_time: float) -> Grant | None:
        """The grant of a key that is known and not expired. The key is found by its hash, so timing tells nothing."""
        digest = sha256(key).hexdigest()
        grant = self._grants.get(digest)
        if grant is None or not hmac.compare_digest(grant.key.key_sha256, digest):
            return None
        return grant if _is_in_time(grant, unix_time) else None

    def find_grant_by_id(self, key_id: str, unix_time: float) -> Grant | None:
        """The same for who has shown the key before."""
        grant = self._grants_by_id.get(key_id)
        return grant if grant is not None and _is_in_time(grant, unix_time) else None

    def find_rank(self, class_name: str) -> int | None:
        return self._ranks.get(class_name)

    def choose_version(self, public_name: str, sticky_id: str, serves: Callable[[str], bool]) -> Version | None:
        """The version that a request for the public model gets; None when the route leads nowhere.

        While `serves` says that the chosen version has no engine, another of the route that has one stands in.
        """
        version_id = self._splits[public_name].choose(sticky_id)
        if version_id and not serves(version_id):
            others = [version.version_id for version in self.stand_ins(public_name, version_id)]
            version_id = next(filter(serves, others), version_id)
        return self.versions.get(version_id) if version_id else None

    def stand_ins(self, public_name: str, version_id: str) -> list[Version]:
        """The other versions of the route, while that one has no engine."""
        targets = [target.version_id for target in self.routes[public_name].targets if target.weight > 0]
        return [self.versions[each] for each in targets if each != version_id and each in self.versions]

    def target_of(self, public_name: str, version_id: str) -> Version | None:
        """The version, where the route leads to it."""
        is_target = any(target.version_id == version_id for target in self.routes[public_name].targets)
        return self.versions.get(version_id) if is_target else None

    def is_split(self, public_name: str) -> bool:
        """Whether it leads to more than one version."""
        return self._splits[public_name].is_split

    def list_routes(self, grant: Grant) -> list[Route]:
        return [route for route in self.snapshot.routes if grant.models is None or route.public_name in grant.models]

    def may_use(self, grant: Grant, public_name: str) -> bool:
        return public_name in self.routes and (grant.models is None or public_name in grant.models)

    def _split_of(self, route: Route, previous: "Directory | None") -> WeightedSplit:
        known = previous.routes.get(route.public_name) if previous is not None else None
        if previous is not None and known is not None and known.targets == route.targets:
            return previous._splits[route.public_name]  # noqa: SLF001 - another Directory
        return WeightedSplit(route.public_name, route.targets)


def _is_in_time(grant: Grant, unix_time: float) -> bool:
    expires_at = grant.expires_at
    return expires_at is None or unix_time < expires_at


def _index_alternatives(routes: list[Route], versions: dict[str, Version]) -> dict[tuple[str, str], list[Version]]:
    """Only those of the same task, and after the version itself where it is one of them."""
    found = {}
    for route in routes:
        order = route.alternatives
        for target in route.targets if order else []:
            chosen = versions.get(target.version_id)
            later = order[order.index(target.version_id) + 1 :] if target.version_id in order else order
            others = [versions[name] for name in later if chosen and name in versions]
            if chosen is not None and (fitting := [other for other in others if other.task == chosen.task]):
                found[route.public_name, chosen.version_id] = fitting
    return found


def _index_grants(snapshot: Snapshot) -> dict[str, Grant]:
    """Keys whose tenant or service class is missing are left out: they may do nothing."""
    tenants = {tenant.tenant_id: tenant for tenant in snapshot.tenants}
    ranks = {item.name: item.rank for item in snapshot.service_classes}
    limits = {profile.name: (_seconds(profile.ttft_ms), _seconds(profile.tpot_ms)) for profile in snapshot.slo_profiles}
    grants = {}
    for key in snapshot.keys:
        tenant = tenants.get(key.tenant_id)
        if tenant is not None and tenant.service_class in ranks:
            slo_s = limits.get(tenant.slo_profile, (None, None))
            grants[key.key_sha256] = _grant_of(key, tenant, ranks[tenant.service_class], slo_s)
    return grants


def _grant_of(key: KeyGrant, tenant: TenantPolicy, rank: int, slo_s: tuple[float | None, float | None]) -> Grant:
    ttft_slo_s, tpot_slo_s = slo_s
    return Grant(
        key=key,
        tenant=tenant,
        rank=rank,
        models=frozenset(key.models) if key.models else None,
        paths=frozenset(path.encode() for path in key.paths) if key.paths else None,
        networks=Ranges(key.networks) if key.networks else None,
        ttft_slo_s=ttft_slo_s,
        tpot_slo_s=tpot_slo_s,
    )


def _seconds(limit_ms: int) -> float | None:
    return limit_ms / 1000 if limit_ms > 0 else None

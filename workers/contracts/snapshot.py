"""What a gateway needs to serve: compiled by the control plane, versioned by `generation`, signed in transit.

The file given to `python -m workers.gateway --snapshot FILE` is this struct as JSON; docs/howto/standalone-gateway.md
shows one, and `python -m workers.contracts.example` writes one.
"""

from msgspec import Struct, field

from workers.contracts.endpoints import Endpoint
from workers.contracts.limits import TenantLimits

SCHEMA_VERSION = 1


class ServiceClass(Struct, frozen=True, kw_only=True):
    """`rank` 0 is served first."""

    name: str
    rank: int


class SLOProfile(Struct, frozen=True, kw_only=True):
    name: str
    ttft_ms: int
    tpot_ms: int


class TenantPolicy(Struct, frozen=True, kw_only=True):
    """`max_queued_requests` bounds this tenant's queue on one gateway; more is refused with 429.

    `discounts_bp` are in basis points by model name; "" stands for every model without one of its own.
    `keeps_prompts`: it asked for its prompts to be kept, sealed with the snapshot's `prompt_key`.
    """

    tenant_id: str
    name: str
    service_class: str
    slo_profile: str
    weight: float = 1.0
    max_queued_requests: int = 1000
    discounts_bp: dict[str, int] = field(default_factory=dict)
    keeps_prompts: bool = False


class KeyGrant(Struct, frozen=True, kw_only=True):
    """`key_sha256` is the lowercase hex SHA-256 of the whole key; the key itself is nowhere.

    `models` lists the public model names the key may use, `paths` the paths (contracts.paths) and `networks` the CIDR
    ranges it may be used from; an empty list means all of them. `expires_at` is in Unix seconds.
    """

    key_id: str
    key_sha256: str
    tenant_id: str
    user_id: str = ""
    expires_at: float | None = None
    models: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    networks: list[str] = field(default_factory=list)


class Price(Struct, frozen=True, kw_only=True):
    """In picodollars (1e-12 USD) per token, so that sums are exact integers: 0.15 USD per million tokens is 150_000.

    `request_pico_usd` is for a request as such. `charged_e8` is the share that is charged, in units of 1e-8, for a
    price after discounts. The formula is in workers/contracts/pricing.py.
    """

    input_pico_usd: int = 0
    cached_input_pico_usd: int = 0
    output_pico_usd: int = 0
    request_pico_usd: int = 0
    charged_e8: int = 100_000_000


class Version(Struct, frozen=True, kw_only=True):
    """A model version. `served_name` is the `model` the engine answers to; `task` is "generate" or "embed".

    `price` is before discounts; `batch_discount_bp` (basis points) is for the service class "batch". `node_ids` are
    nodes where engines of it run, or start where none runs yet; empty where there is no second node.
    """

    version_id: str
    model: str
    label: str
    served_name: str
    deployment_id: str = ""
    task: str = "generate"
    max_context_tokens: int | None = None
    price: Price = Price()
    batch_discount_bp: int = 0
    node_ids: list[str] = field(default_factory=list)


class RouteTarget(Struct, frozen=True, kw_only=True):
    """`weight` is relative to the sum of the route's weights."""

    version_id: str
    weight: int


class Route(Struct, frozen=True, kw_only=True):
    """A public model name → weighted versions. `created_at` (Unix seconds) is what `/v1/models` reports.

    `alternatives` are ids of cheaper versions, in order of preference, that may answer what the chosen version cannot
    answer in time; of one that is itself among them those that follow it.
    """

    public_name: str
    targets: list[RouteTarget]
    created_at: int = 0
    alternatives: list[str] = field(default_factory=list)


class GatewayAddress(Struct, frozen=True, kw_only=True):
    """Where a node's gateway answers: http:// or https://, host and port."""

    node_id: str
    url: str


class Snapshot(Struct, frozen=True, kw_only=True):
    """`endpoints` are fixed ones, for a gateway without an agent; an agent's own list is a file of its own.

    `cors_origins` are the browser origins that may call the gateway (the console's playground). `trusted_proxies` are
    the CIDR ranges whose X-Forwarded-For says who the client is. From `media_hosts` engines may fetch what a prompt
    points to: names of hosts, or "*" for every name (but no address in numbers); none means that it must be in the
    request itself. A tenant that `limits` leaves out has none. `prompt_key` is base64 of 32 raw X25519 bytes; without
    one no prompt is kept. `gateways` are those of all nodes that have told where they answer: files and batches are
    asked for where they are kept, models where they run. By `peer_secret` they prove to each other what they are.
    """

    schema_version: int = SCHEMA_VERSION
    generation: int
    compiled_at: float
    service_classes: list[ServiceClass]
    slo_profiles: list[SLOProfile]
    tenants: list[TenantPolicy]
    keys: list[KeyGrant]
    versions: list[Version]
    routes: list[Route]
    endpoints: list[Endpoint] = field(default_factory=list)
    cors_origins: list[str] = field(default_factory=list)
    trusted_proxies: list[str] = field(default_factory=list)
    media_hosts: list[str] = field(default_factory=list)
    limits: list[TenantLimits] = field(default_factory=list)
    prompt_key: str = ""
    gateways: list[GatewayAddress] = field(default_factory=list)
    peer_secret: str = ""

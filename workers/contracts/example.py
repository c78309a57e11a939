"""A snapshot for a gateway without a control plane: three tenants of three classes.

    python -m workers.contracts.example --endpoint URL … > snapshot.json

Their API keys are printed to stderr, or given with `--key TENANT=KEY`.
"""

import argparse
import secrets
import sys
import time
from collections.abc import Sequence
from hashlib import sha256

import msgspec

from workers.contracts.endpoints import Endpoint
from workers.contracts.snapshot import (
    KeyGrant,
    Price,
    Route,
    RouteTarget,
    ServiceClass,
    SLOProfile,
    Snapshot,
    TenantPolicy,
    Version,
)

TENANTS = ("gold", "standard", "batch")


def build_snapshot(
    *, model: str, versions: Sequence[tuple[str, int, Sequence[str]]], keys: dict[str, str], now: float
) -> Snapshot:
    """`versions` are (served name, weight, base URLs) in the order v1, v2, …; `keys` are API keys by tenant name."""
    labelled = [(f"v{number}", *version) for number, version in enumerate(versions, 1)]
    return Snapshot(
        generation=1,
        compiled_at=now,
        service_classes=[ServiceClass(name=name, rank=rank) for rank, name in enumerate(TENANTS)],
        slo_profiles=[SLOProfile(name="interactive", ttft_ms=2000, tpot_ms=150)],
        tenants=[
            TenantPolicy(tenant_id=name, name=name, service_class=name, slo_profile="interactive") for name in TENANTS
        ],
        keys=[
            KeyGrant(key_id=f"key-{name}", key_sha256=sha256(key.encode()).hexdigest(), tenant_id=name)
            for name, key in keys.items()
        ],
        versions=[
            Version(version_id=label, model=model, label=label, served_name=served_name, price=_EXAMPLE_PRICE)
            for label, served_name, _, _ in labelled
        ],
        routes=[
            Route(
                public_name=model,
                targets=[RouteTarget(version_id=label, weight=weight) for label, _, weight, _ in labelled],
                created_at=int(now),
            )
        ],
        endpoints=[
            Endpoint(endpoint_id=f"{label}-{number}", version_id=label, base_url=base_url)
            for label, _, _, base_urls in labelled
            for number, base_url in enumerate(base_urls)
        ],
    )


_EXAMPLE_PRICE = Price(input_pico_usd=150_000, cached_input_pico_usd=75_000, output_pico_usd=600_000)


def main() -> None:
    arguments = _parse()
    keys = {name: f"ty-example-{secrets.token_urlsafe(24)}" for name in TENANTS} | dict(arguments.key)
    for name, key in keys.items():
        sys.stderr.write(f"{name}: {key}\n")
    served_name = arguments.served_name or arguments.model
    versions = [(served_name, 100, arguments.endpoint)]
    if arguments.canary_endpoint:
        versions = [(served_name, 90, arguments.endpoint), (served_name, 10, arguments.canary_endpoint)]
    snapshot = build_snapshot(model=arguments.model, versions=versions, keys=keys, now=time.time())
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(snapshot)).decode() + "\n")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m workers.contracts.example", description=__doc__)
    parser.add_argument("--endpoint", action="append", required=True, metavar="URL", help="an engine; may be repeated")
    parser.add_argument("--canary-endpoint", action="append", default=[], metavar="URL", help="gets 10 %% of requests")
    parser.add_argument("--model", default="demo-chat", help="public model name (default: %(default)s)")
    parser.add_argument("--served-name", help="the model's name on the engine (default: the public name)")
    parser.add_argument("--key", action="append", type=_tenant_key, default=[], metavar="TENANT=KEY")
    return parser.parse_args()


def _tenant_key(text: str) -> tuple[str, str]:
    tenant, separator, key = text.partition("=")
    if not separator or tenant not in TENANTS or not key:
        raise argparse.ArgumentTypeError(f"give one of {', '.join(TENANTS)}, '=' and the key")
    return tenant, key


if __name__ == "__main__":
    main()

"""How long a change takes to reach an agent, tried on a simulated fleet: replicas are drained, one after the other."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from apps.common.actors import SYSTEM
from apps.common.ids import new_id
from apps.deployments.models import Deployment, Replica
from apps.deployments.services.deployments import Change, change_deployment, create_deployment, drain_replica
from apps.registry.models import Model
from apps.registry.services import create_model, create_version

NAME = "fleet-probe"
MOST_REPLICAS = 64


@dataclass
class Probe:
    """`asked` has by replica id when it was asked to drain."""

    deployment: Deployment
    asked: dict[str, float] = field(default_factory=dict)


def start_probe(*, now: datetime) -> Probe:
    """A deployment whose replicas only simulated nodes take."""
    model = Model.objects.filter(name=NAME).first()
    model = model or create_model(actor=SYSTEM, name=NAME, task="generate", now=now)
    version = model.versions.first() or create_version(
        actor=SYSTEM, model=model, label="v1", engine="fake", source="fake", served_name=NAME, now=now
    )
    deployment = create_deployment(
        actor=SYSTEM,
        name=f"{NAME}-{new_id().hex[-8:]}",
        version=version,
        replica_count=MOST_REPLICAS,
        requirements={"labels": {"simulated": "yes"}},
        now=now,
    )
    return Probe(deployment)


def drain_one(probe: Probe, *, random: Random, now: datetime) -> None:
    """Of those that are ready."""
    ready = list(Replica.objects.filter(deployment=probe.deployment, state="ready", is_draining=False))
    if not ready:
        return
    replica = random.choice(ready)
    probe.asked[str(replica.pk)] = time.monotonic()
    drain_replica(actor=SYSTEM, replica=replica, now=now)


def stop_probe(probe: Probe, *, now: datetime) -> None:
    change_deployment(actor=SYSTEM, deployment=probe.deployment, change=Change(replica_count=0), now=now)


def delays_of(asked: Mapping[str, float], seen: Mapping[str, float]) -> list[float]:
    """In seconds, sorted. What has not been seen yet is left out."""
    return sorted(seen[replica_id] - at for replica_id, at in asked.items() if replica_id in seen)

"""Replicas as the control plane would ask for them."""

from typing import Any

from workers.contracts.desired import ReplicaSpec


def replica_spec(**changes: Any) -> ReplicaSpec:
    fields: dict[str, Any] = {
        "replica_id": "replica-1",
        "deployment_id": "deployment-1",
        "version_id": "version-1",
        "engine": "fake",
        "source": "a-model",
        "served_name": "demo",
        "port": 9000,
        "spec_hash": "hash-1",
        "max_context_tokens": 2048,
    }
    return ReplicaSpec(**(fields | changes))

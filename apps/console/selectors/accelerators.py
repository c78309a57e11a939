from apps.deployments.models import HOST_KEY, Replica
from apps.deployments.selectors import list_replicas
from apps.fleet.models import Accelerator


def list_replicas_on(accelerator: Accelerator) -> list[Replica]:
    """Those that have a share of it; what runs on the host has one of its CPU."""
    key = HOST_KEY if accelerator.kind == "cpu" else accelerator.key
    on_node = list_replicas(node_id=accelerator.node_id)
    place = str(accelerator.node_id)
    return [
        each for each in on_node if any(stage["node_id"] == place and key in stage["keys"] for stage in each.stages)
    ]

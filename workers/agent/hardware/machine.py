"""Which GPUs this node has: NVML's, or those that TOKENYARD_AGENT_MACHINE describes (described_gpus.py)."""

from collections.abc import Mapping

from workers.agent.hardware.described_gpus import DescribedGPUs, read_machine
from workers.agent.hardware.gpus import GPUs
from workers.agent.hardware.nvml import NVMLGPUs

MACHINE = "TOKENYARD_AGENT_MACHINE"


def open_gpus(environ: Mapping[str, str]) -> GPUs:
    """Raises DescriptionError for a description that means nothing."""
    described = environ.get(MACHINE, "")
    return DescribedGPUs(read_machine(described)) if described else NVMLGPUs()

"""What a plan costs. One unit, US dollars an hour, so that a choice can be explained as a sum.

Real money is the price of the accelerators that a plan takes into use. The rest is what an operator would pay to
avoid something:

    an unplaced replica        1,000 per accelerator it asked for: always worse than any place
    a node taken into use      5 % of the price of all its accelerators
    a broken island            10 % of the price of what stays unused in an NVLink island that is in use (fragmentation)
    tensor parallel over PCIe  150 % of the price of the group, more than the GPUs of an island that is there cost;
                               over two NUMA nodes  3 %
    a pipeline from node to node   20 % of the price of a stage, for each change of node
    replicas side by side      8.00 for each other replica of a deployment that spreads, on the same node
    weights to fetch           0.002 per GiB;   a start instead of waking a sleeping engine   0.05
"""

from dataclasses import dataclass

GIB = 1024**3


@dataclass(frozen=True, kw_only=True, slots=True)
class Prices:
    """Ratios are of the price of the accelerators concerned."""

    unplaced_usd: float = 1000.0
    node_ratio: float = 0.05
    unused_ratio: float = 0.10
    pcie_ratio: float = 1.50
    numa_ratio: float = 0.03
    hop_ratio: float = 0.20
    side_by_side_usd: float = 8.0
    fetch_usd_per_gib: float = 0.002
    start_usd: float = 0.05


PRICES = Prices()

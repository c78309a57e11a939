"""How long a plan takes: `python -m benchmarks.placement [--gpus 10000] [--replicas 2000]`.

Four fleets: all nodes idle and alike; nodes of five GPU models, half in use; one where foreign processes use a
different amount on every GPU, so that no two nodes are alike and nothing can be looked at once for many; and that one
with disks that most weights do not fit on.
"""

import argparse
import time
from dataclasses import replace
from random import Random
from uuid import UUID

from apps.placement.policies.demand import PACK, SPREAD, Demand, Shape
from apps.placement.policies.fleet import GPU, AcceleratorView, NodeView, Occupant
from apps.placement.policies.planning import make_plan

_GIB = 1024**3
_MODELS = {"L4": (24, 0.8), "L40S": (45, 1.8), "A100-80": (80, 3.5), "H100": (80, 4.5), "H200": (141, 5.75)}
_GPUS_PER_NODE = 8
_REPLICAS_PER_DEPLOYMENT = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--replicas", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(f"{arguments.gpus} GPUs, {arguments.replicas} replicas; CPU seconds of one core")
    for name, models, used, foreign, disk_gib in (
        ("idle, all alike", ["H100"], 0.0, False, (4000, 4000)),
        ("five models, half in use", list(_MODELS), 0.5, False, (4000, 4000)),
        ("every GPU different", list(_MODELS), 0.5, True, (4000, 4000)),
        ("small disks", list(_MODELS), 0.5, True, (0, 160)),
    ):
        random = Random(arguments.seed)
        nodes = _fleet(random, arguments.gpus // _GPUS_PER_NODE, models, used, is_foreign=foreign)
        nodes = [replace(node, disk_free_bytes=random.randint(*disk_gib) * _GIB) for node in nodes]
        demands = _demands(random, arguments.replicas)
        before = time.process_time()
        plan = make_plan(nodes, demands)
        spent_s = time.process_time() - before
        print(f"  {name:26} {spent_s:6.2f} s   placed {len(plan.assignments)}, not {len(plan.unplaced)}")


def _fleet(random: Random, count: int, models: list[str], used: float, *, is_foreign: bool) -> list[NodeView]:
    return [_node(random, number, random.choice(models), used, is_foreign=is_foreign) for number in range(count)]


def _node(random: Random, number: int, model: str, used: float, *, is_foreign: bool) -> NodeView:
    gib, price = _MODELS[model]
    gpus = tuple(
        AcceleratorView(
            key=str(index),
            kind=GPU,
            model=model,
            memory_bytes=gib * _GIB,
            foreign_bytes=random.randrange(2 * _GIB) if is_foreign else 0,
            island=0 if model in {"A100-80", "H100", "H200"} else None,
            numa=index // 4,
            usd_per_h=price,
        )
        for index in range(_GPUS_PER_NODE)
    )
    taken = [index for index in range(_GPUS_PER_NODE) if random.random() < used]
    occupants = tuple(_occupant(number, index) for index in taken)
    return NodeView(
        node_id=UUID(int=number + 1),
        name=f"n{number:05}",
        engines=frozenset({"vllm"}),
        labels={"zone": f"z{number % 5}"},
        accelerators=gpus,
        occupants=occupants,
    )


def _occupant(number: int, index: int) -> Occupant:
    identity = UUID(int=10_000_000 + number * _GPUS_PER_NODE + index)
    return Occupant(replica_id=identity, deployment_id=UUID(int=index + 1), keys=(str(index),), is_exclusive=True)


def _demands(random: Random, count: int) -> list[Demand]:
    demands: list[Demand] = []
    while len(demands) < count:
        shape, number = _shape(random), 100 + len(demands)
        weights_bytes = random.randint(15, 140) * _GIB
        for _ in range(min(_REPLICAS_PER_DEPLOYMENT, count - len(demands))):
            demands.append(
                Demand(
                    replica_id=UUID(int=1_000_000 + len(demands)),
                    deployment_id=UUID(int=number),
                    shape=shape,
                    weights_key=f"w{number}",
                    weights_bytes=weights_bytes,
                )
            )
    return demands


def _shape(random: Random) -> Shape:
    width = random.choice([1, 1, 1, 1, 2, 2, 4, 8])
    return Shape(
        engine="vllm",
        tensor_parallel=width,
        pipeline_parallel=random.choice([1, 1, 1, 2]) if width > 2 else 1,
        memory_bytes=int(random.uniform(8, 70) * _GIB),
        is_exclusive=random.random() < 0.7,
        strategy=random.choice([SPREAD, PACK]),
        apart=random.choice(["", "", "node", "zone"]) if width < 8 else "",
    )


if __name__ == "__main__":
    main()

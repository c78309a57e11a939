"""Machines and replicas for tests of placement, described in a line."""

from random import Random
from typing import Any
from uuid import UUID

from apps.placement.policies.demand import Demand, Shape
from apps.placement.policies.fleet import GPU, AcceleratorView, NodeView, Occupant

GIB = 1024**3
PRICES = {"L4": 0.8, "L40S": 1.8, "A100-80": 3.5, "H100": 4.5, "H200": 5.75}
MEMORY_GIB = {"L4": 24, "L40S": 45, "A100-80": 80, "H100": 80, "H200": 141}


def seeded(seed):
    return Random(seed)  # noqa: S311 - cases, not secrets


def gpu(index, model="H100", *, gib=None, island=0, numa=None, **facts):
    memory = (MEMORY_GIB[model] if gib is None else gib) * GIB
    price = facts.pop("usd_per_h", PRICES.get(model, 1.0))
    fields = {"key": str(index), "kind": GPU, "model": model, "memory_bytes": memory, "usd_per_h": price}
    return AcceleratorView(**(fields | {"island": island, "numa": index // 4 if numa is None else numa} | facts))


def node(number, *gpus, **facts):
    fields = {"node_id": UUID(int=number), "name": f"n{number:04}", "accelerators": gpus, "disk_free_bytes": 4096 * GIB}
    return NodeView(**(fields | {"engines": frozenset({"vllm"})} | facts))


def box(number, model="H100", count=8, *, nvlink=True, **facts):
    return node(number, *(gpu(i, model, island=0 if nvlink else None) for i in range(count)), **facts)


def occupant(number, *keys, gib=0, deployment=900, is_exclusive=True, is_asleep=False, avoids=()):
    return Occupant(
        replica_id=UUID(int=10_000 + number),
        deployment_id=UUID(int=deployment),
        keys=keys,
        bytes_each=int(gib * GIB),
        is_exclusive=is_exclusive,
        is_asleep=is_asleep,
        avoids=tuple(UUID(int=each) for each in avoids),
    )


def demand(number=1, *, deployment=1, gib=40, weights_key="", weights_gib=0, avoids=(), **shape):
    fields = {"engine": "vllm", "memory_bytes": None if gib is None else int(gib * GIB)}
    return Demand(
        replica_id=UUID(int=number),
        deployment_id=UUID(int=deployment),
        shape=Shape(**(fields | shape)),
        weights_key=weights_key,
        weights_bytes=int(weights_gib * GIB),
        avoids=tuple(UUID(int=each) for each in avoids),
    )


def random_fleet(random: Random):
    return [_random_node(random, number) for number in range(1, random.randint(2, 4) + 1)]


def _random_node(random, number):
    model, count = random.choice(list(PRICES)), random.choice([1, 2, 4])
    islands = random.choice([[0] * count, [None] * count, [index // 2 for index in range(count)]])
    gpus = [
        gpu(i, model, island=islands[i], numa=i // 2, foreign_bytes=random.choice([0, 0, 0, 5, 30]) * GIB)
        for i in range(count)
    ]
    taken = [occupant(number * 10, "0", gib=random.choice([8, 16]), is_exclusive=random.random() < 0.5)]
    cached = frozenset(f"w{each}" for each in range(1, 5) if random.random() < 0.3)
    return node(number, *gpus, occupants=tuple(taken) if random.random() < 0.3 else (), cached=cached)


def random_demands(random: Random):
    demands: list[Any] = []
    for deployment in range(1, random.randint(2, 4) + 1):
        shape = _random_shape(random)
        for _ in range(random.randint(1, 3)):
            number = len(demands) + 1
            demands.append(demand(number, deployment=deployment, weights_key=f"w{deployment}", weights_gib=20, **shape))
    return demands


def _random_shape(random):
    width = random.choice([1, 1, 1, 2, 2, 4])
    shape = {
        "tensor_parallel": width,
        "pipeline_parallel": random.choice([1, 1, 1, 1, 2]) if width <= 2 else 1,
        "gib": random.choice([6, 14, 20, 38, 60]),
        "is_exclusive": random.random() < 0.5,
        "strategy": random.choice(["spread", "pack"]),
        "apart": random.choice(["", "", "", "node"]),
    }
    if random.random() < 0.2:
        shape["models"] = (random.choice(list(PRICES)), "H100")
    return shape

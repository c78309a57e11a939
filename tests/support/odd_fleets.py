"""Machines and wishes that nobody would order: everything of placement at once, and all of it mixed."""

from tests.support.fleets import GIB, MEMORY_GIB, PRICES, demand, gpu, node, occupant

_SLICES = (("1g.10gb", 10), ("2g.20gb", 20), ("3g.40gb", 40))
_ENGINES = ("vllm", "fake")
_ZONES = ("a", "b")


def odd_instance(random):
    """Nodes and demands. A deployment's replicas all avoid the same ones, those of before too."""
    demands = _odd_demands(random)
    avoids = {each.deployment_id.int: [other.int for other in each.avoids] for each in demands} | {901: [3]}
    return [_odd_node(random, number, avoids) for number in range(1, random.randint(1, 4) + 1)], demands


def _odd_node(random, number, avoids):
    count = random.choice([1, 2, 2, 3, 4, 5])
    models = random.choices(list(PRICES), k=random.choice([1, 1, 2]))
    islands = random.choice([[0] * count, [None] * count, [i // 2 for i in range(count)], [0, None, 0, 1, 1]])
    accelerators = [_odd_gpu(random, index, models, islands) for index in range(count)]
    if random.random() < 0.3:
        accelerators += [_slice(random, index) for index in range(random.randint(1, 3))]
    return node(
        number,
        *accelerators,
        labels={"zone": random.choice(_ZONES)} if random.random() < 0.8 else {},
        engines=frozenset(_ENGINES) if random.random() < 0.8 else frozenset({"vllm"}),
        is_cordoned=random.random() < 0.05,
        state="offline" if random.random() < 0.05 else "online",
        cached=frozenset(f"w{each}" for each in range(1, 5) if random.random() < 0.3),
        coming={f"w{random.randint(1, 5)}": random.randint(0, 20) * GIB} if random.random() < 0.2 else {},
        disk_free_bytes=random.choice([4096, 4096, 4096, 45, 21, 20, 0]) * GIB if random.random() < 0.95 else None,
        occupants=tuple(_odd_occupants(random, number, accelerators, avoids)),
    )


def _odd_gpu(random, index, models, islands):
    model = random.choice(models)
    return gpu(
        index,
        model,
        gib=random.choice([MEMORY_GIB[model], MEMORY_GIB[model], MEMORY_GIB[model] // 2]),
        island=islands[index],
        numa=random.choice([0, index // 2]),
        foreign_bytes=random.choice([0, 0, 0, 3, 17, 90]) * GIB,
        usd_per_h=PRICES[model] * random.choice([1, 1, 1, 0.5]),
        is_healthy=random.random() > 0.05,
        **({"memory_bytes": None} if random.random() < 0.04 else {}),
    )


def _slice(random, index):
    profile, gib = random.choice(_SLICES)
    return gpu(f"m{index}", "H100", kind="mig", gib=gib, island=None, numa=0, usd_per_h=1.0, profile=profile)


def _odd_occupants(random, number, accelerators, avoids):
    """Never more than there is, and nobody beside who is alone; one of them may lie asleep."""
    for place, accelerator in enumerate(accelerators):
        if random.random() < 0.2:
            room = max(0, (accelerator.memory_bytes or 0) - accelerator.foreign_bytes) // GIB
            is_asleep, deployment = random.random() < 0.2, random.choice([1, 2, 900, 901])
            yield occupant(
                number * 10 + place,
                accelerator.key,
                gib=random.randint(0, 1 if is_asleep and room else room),
                deployment=deployment,
                is_exclusive=not is_asleep and random.random() < 0.4,
                is_asleep=is_asleep,
                avoids=avoids.get(deployment, ()),
            )


def _odd_demands(random):
    demands = []
    for deployment in range(1, random.randint(1, 4) + 1):
        shape = _odd_shape(random)
        avoids = (random.choice([900, deployment % 4 + 1]),) if random.random() < 0.3 else ()
        for _ in range(random.randint(1, 3)):
            facts = {"weights_key": f"w{deployment}", "weights_gib": 20, "avoids": avoids}
            demands.append(demand(len(demands) + 1, deployment=deployment, **facts, **shape))
    return demands


def _odd_shape(random):
    width = random.choice([1, 1, 1, 2, 2, 3, 4])
    is_slice = random.random() < 0.2
    shape = {
        "on": "mig" if is_slice else "gpu",
        "engine": random.choice(["vllm", "vllm", "fake"]),
        "tensor_parallel": 1 if is_slice and random.random() < 0.9 else width,
        "pipeline_parallel": random.choice([1, 1, 1, 2]) if width <= 2 and not is_slice else 1,
        "gib": random.choice([6, 14, 20, 38, 60]),
        "is_exclusive": random.random() < 0.4,
        "needs_nvlink": random.random() < 0.2,
        "may_span": random.random() < 0.3,
        "strategy": random.choice(["spread", "pack"]),
        "apart": random.choice(["", "", "", "node", "zone"]),
        "max_usd_per_h": random.choice([None, None, None, 2.0, 4.5]),
    }
    if not shape["is_exclusive"] and random.random() < 0.5:
        shape["memory_share"] = random.choice([0.1, 0.25, 0.5, 0.9])
    if random.random() < 0.2:
        shape["models"] = tuple(sorted(random.sample(list(PRICES), 2)))
    if random.random() < 0.3:
        shape["memory_by_model"] = (("A100-80", 22 * GIB), ("H100", 18 * GIB))
    if is_slice and random.random() < 0.5:
        shape["profile"] = random.choice(_SLICES)[0]
    if random.random() < 0.2:
        shape["labels"] = (("zone", random.choice(_ZONES)),)
    return shape

from random import Random

import pytest

from workers.scheduling.prefix.pins import Pins
from workers.scheduling.request import Request

pytestmark = pytest.mark.unit


def a_prompt(rng):
    """Of a few families that go apart at some place and then again; blocks of one stand for all before them."""
    first, second = rng.randrange(2), rng.randrange(3)
    shared, length = rng.randint(1, 8), rng.randint(1, 14)
    names = [f"{first}" if place < shared else f"{first}{shared}{second}" for place in range(length)]
    return tuple(place * 10_000 + int(f"1{name}") for place, name in enumerate(names))


def asked(blocks):
    return Request(
        request_id=hash(blocks),
        version_id="v",
        tenant_id="t",
        rank=0,
        max_queued_of_tenant=9,
        arrived_at=0.0,
        prefix_blocks=blocks,
        block_tokens=16,
    )


@pytest.mark.parametrize("seed", range(20))
def test_holders_are_those_of_a_count_block_by_block(seed):
    rng = Random(seed)  # noqa: S311 - seeded
    pins, running, waiting = Pins(), [], []
    for _ in range(300):
        if running and rng.random() < 0.48:
            pins.remove(running.pop(rng.randrange(len(running))))
        else:
            running.append(a_prompt(rng))
            pins.add(running[-1])
        held = [block for prompt in running for block in prompt]
        prompt = a_prompt(rng)
        waiting = [*waiting[-5:], prompt]
        for asking in waiting:  # again and again
            leading = [block in held for block in asking]
            assert pins.held_tokens(asked(asking)) == 16 * [*leading, False].index(False)
        part = rng.randint(1, len(prompt))
        assert pins.holders_of(prompt, part) == held.count(prompt[part - 1])
        assert len(pins) == len(set(held))
    for prompt in running:
        pins.remove(prompt)
    assert len(pins) == 0

"""Who makes room in a full queue is found without looking at all that waits."""

from random import Random

import pytest

from workers.scheduling.counts import QueueCounts
from workers.scheduling.interface import Request
from workers.scheduling.ticket import Ticket

pytestmark = pytest.mark.unit


def a_ticket(rng, number):
    tenant = rng.choice("abcd")
    request = Request(
        request_id=number,
        version_id="v",
        tenant_id=tenant,
        rank=rng.randrange(3),
        max_queued_of_tenant=9,
        arrived_at=0.0,
    )
    ticket = Ticket(request, number, "v")
    ticket.attempts = int(rng.random() < 0.2)
    return ticket


def least_deserving(waiting, newcomer):
    """By looking at all of them."""

    def wait_of(tenant_id):
        return sum(ticket.request.tenant_id == tenant_id for ticket in waiting)

    most = max(wait_of(tenant_id) for tenant_id in "abcd")
    if most <= wait_of(newcomer.request.tenant_id):
        return [newcomer]
    of_each = [
        [ticket for ticket in waiting if ticket.request.tenant_id == tenant_id and not ticket.attempts]
        for tenant_id in "abcd"
        if wait_of(tenant_id) == most
    ]
    return [max(of, key=lambda t: (t.request.rank, t.number), default=newcomer) for of in of_each]


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_same_as_by_looking_at_all(seed):
    rng, counts, waiting = Random(seed), QueueCounts(), []  # noqa: S311 - seeded
    for number in range(1, 300):
        newcomer = a_ticket(rng, number)
        waiting.append(newcomer)
        counts.add(newcomer)
        assert counts.least_deserving(newcomer) in least_deserving(waiting, newcomer)
        while rng.random() < 0.49 and waiting:
            gone = waiting.pop(rng.randrange(len(waiting)))
            gone.attempts += rng.randrange(2)
            counts.remove(gone)
    for ticket in waiting:
        counts.remove(ticket)
    assert counts.total == counts.tokens == counts._greediest.most == len(counts._greediest) == 0
    assert counts.by_tenant == counts.by_rank == {}

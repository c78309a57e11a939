"""The authority in Valkey gives the answers of the one in Python, whatever it is told."""

import random
import time
from uuid import uuid4

import pytest
import redis

from workers.contracts.limits import HOLDERS_KEY, PREFIX
from workers.gateway.limits.authority import Ask, LocalAuthority
from workers.gateway.limits.valkey import ValkeyAuthority

pytestmark = pytest.mark.integration

HOLDERS = ("g1", "g2", "g3")
APART_S = 0.01
ATTEMPTS = 10
TTL_S = 60.0


def some_ask(dice, holder, account, shape, says):
    """Totals grow, mostly; old messages come again."""
    said = says.setdefault(holder, {"sequence": 0, "granted": 0, "spent": 0, "returned": 0})
    for name, most in (("granted", 6), ("spent", 4), ("returned", 3)):
        said[name] += dice.randint(0, most)
    said["sequence"] += dice.choice((0, 1, 1, 1))
    return Ask(
        account=account,
        shape=shape,
        marker="",
        keep_ms=60_000,
        revision=dice.choice((1, 1, 1, 2)),
        amount=dice.choice((40, 40, 60)),
        burst=30,
        raised_amount=0,
        raised_until_ms=0,
        is_placed=dice.random() < 0.9,
        reserved=dice.randint(0, 5),
        recent=dice.randint(0, 4),
        head=dice.choice((0, 1, 5)),
        need=dice.randint(0, 8),
        extra=dice.randint(0, 20),
        **said,
    )


@pytest.mark.parametrize("shape", ["slots", "window", "bucket", "period"])
@pytest.mark.parametrize("seed", range(8))
async def test_both_answer_alike(valkey, shape, seed):
    for _ in range(ATTEMPTS):
        if await play(valkey, shape, seed):
            return
    pytest.fail("the machine never let the two be asked at the same time")


async def play(valkey, shape, seed):
    """False where one was asked so much later than the other that their clocks say different things."""
    dice, run = random.Random(seed), uuid4().hex  # noqa: S311 - a test's dice
    local = LocalAuthority(ttl_ms=int(TTL_S * 1000))
    theirs = {name: ValkeyAuthority(valkey.url, holder=f"{run}{name}", ttl_s=TTL_S, warm_s=0) for name in HOLDERS}
    says = {}
    with redis.Redis.from_url(valkey.url) as client:
        client.delete(HOLDERS_KEY)
    try:
        for name in HOLDERS:
            await theirs[name].exchange([], [])
            local.exchange(name, [], int(time.time() * 1000))
        for _ in range(40):
            holder = dice.choice(HOLDERS)
            ask = some_ask(dice, holder, f"{run}:{shape}", shape, says)
            began = time.monotonic()
            answers = [
                (await theirs[holder].exchange([ask], [])).answers[0],
                local.exchange(holder, [ask], int(time.time() * 1000)).answers[0],
            ]
            if time.monotonic() - began > APART_S:
                return False
            assert without_times(answers[0]) == without_times(answers[1])
    finally:
        for authority in theirs.values():
            await authority.close()
    return True


def without_times(answer):
    """Their clocks differ by a little."""
    return {name: getattr(answer, name) for name in answer.__struct_fields__ if not name.endswith("_ms")}


@pytest.mark.parametrize("shape", ["slots", "period"])
async def test_an_account_may_have_known_any_number_of_gateways(valkey, shape):
    account = f"{uuid4().hex}:{shape}"
    known = {f"{kind}:gone{number}": 1 for number in range(2000) for kind in "qgsru"}
    authority = ValkeyAuthority(valkey.url, holder="me", ttl_s=TTL_S, warm_s=0)
    ask = some_ask(random.Random(1), "me", account, shape, {})  # noqa: S311 - a test's dice
    with redis.Redis.from_url(valkey.url) as client:
        client.hset(f"{PREFIX}a:{account}", mapping=known)
        (answer,) = (await authority.exchange([ask], [])).answers
        kept = client.hexists(f"{PREFIX}a:{account}", "s:gone1")
    await authority.close()
    assert (answer.state, kept) == ("ready", shape == "period")
    assert shape == "slots" or answer.used >= len(known) / 5

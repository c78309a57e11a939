"""Whom a gateway asks about limits."""

import os
import time

import pytest

from tests.support.limits_world import demand, rule
from workers.contracts.limits import TenantLimits
from workers.gateway.limits import link
from workers.gateway.limits.admission import MAX_UNTOLD_EVENTS, Limits
from workers.gateway.limits.authority import Ask, Reply
from workers.gateway.limits.ledger import DEGRADED_AFTER_S
from workers.gateway.limits.link import AuthorityLink, OwnAuthority, ToldAuthority
from workers.gateway.limits.rulebook import TenantRules

pytestmark = pytest.mark.unit


class Named:
    """Stands for the authority at an address; its replies say which."""

    error = ""

    def __init__(self, url: str, holder: str = "") -> None:
        self.url = url
        self.holder = holder
        self.is_closed = False

    async def exchange(self, asks, events):
        return Reply(holders=1, epoch=self.url)

    async def close(self):
        self.is_closed = True


@pytest.fixture
def shared(monkeypatch):
    """Those that were opened."""
    opened: list[Named] = []

    def open_one(url, holder):
        opened.append(Named(url, holder))
        return opened[-1]

    monkeypatch.setattr(link, "valkey_at", open_one)
    return opened


def say(file, url, at_s):
    file.write_text(url)
    os.utime(file, (at_s, at_s))


async def asked(authority):
    return (await authority.exchange([], [])).epoch


async def test_limits_are_the_nodes_own_until_it_is_told_where_they_are_shared_and_follow_what_it_is_told(
    tmp_path, shared
):
    file, own = tmp_path / "limits.url", Named("own")
    authority = ToldAuthority(file, "me", own)
    assert await asked(authority) == "own"
    say(file, "redis://a", 1)
    assert [await asked(authority), await asked(authority)] == ["redis://a", "redis://a"]
    say(file, "redis://b", 2)
    assert await asked(authority) == "redis://b"
    assert [(one.url, one.holder, one.is_closed) for one in shared] == [
        ("redis://a", "me", True),
        ("redis://b", "me", False),
    ]
    say(file, "", 3)
    assert await asked(authority) == "own"


async def test_what_a_node_was_told_holds_when_the_file_is_gone(tmp_path, shared):
    file = tmp_path / "limits.url"
    authority = ToldAuthority(file, "me", Named("own"))
    say(file, "redis://a", 1)
    await asked(authority)
    file.unlink()
    assert await asked(authority) == "redis://a"
    await authority.close()
    assert shared[0].is_closed


async def test_a_gateway_alone_knows_what_was_used_of_a_day_since_it_began():
    ask = Ask(
        account="a", shape="period", marker="day", keep_ms=1, revision=1, amount=9, burst=0, raised_amount=0,
        raised_until_ms=0, sequence=1, head=5, need=5,
    )  # fmt: skip
    (answer,) = (await OwnAuthority("me").exchange([ask], [])).answers
    assert (answer.state, answer.granted) == ("ready", 5)


async def test_an_address_that_cannot_be_read_is_said_and_the_former_one_holds(tmp_path, caplog):
    file = tmp_path / "limits.url"
    authority = ToldAuthority(file, "me", Named("own"))
    for at_s, odd in enumerate((b"http://:a-password@host", b"redis://:a-password@host:no-port", b"\xff\xfe"), start=1):
        file.write_bytes(odd)
        os.utime(file, (at_s, at_s))
        for _ in range(2):  # it is said as long as it is so
            assert await asked(authority) == "own"
            assert "limits.url is no address" in authority.error
        assert authority.error in caplog.text
        assert "a-password" not in caplog.text
    say(file, "", 4)
    assert (await asked(authority), authority.error) == ("own", "")


class Failing(Named):
    async def exchange(self, asks, events):
        raise RuntimeError("a fault of ours")


async def test_a_fault_while_it_is_asked_is_as_if_nobody_answered(caplog):
    """Else what was said is lost, and who waits, waits for ever."""
    limits = Limits(monotonic=lambda: 1.0, unix_time=lambda: 1.0)
    tenant = TenantRules(TenantLimits(tenant_id="t1", rules=[rule("tokens_per_day", 10)]))
    (claim,) = limits.ledger.claims_for(tenant, demand(output_tokens=1), 1.0)
    claim.account.reserve(1, 1.0)
    limits.ledger.settle([claim], 1, 0, 1.0)
    await AuthorityLink(limits, Failing("x"))._exchange(1.0)
    assert "a fault of ours" in caplog.text
    assert limits.ledger.is_degraded(time.monotonic() + DEGRADED_AFTER_S)
    assert [ask.spent for ask in limits.ledger.asks(3.0)] == [1]


class Slow(Named):
    """Meanwhile more happens than there is room for."""

    def __init__(self, limits: Limits) -> None:
        super().__init__("slow")
        self._limits = limits

    async def exchange(self, asks, events):
        self._limits.events.extend(b"later %d" % number for number in range(50))
        return await super().exchange(asks, events)


async def test_what_happens_while_events_are_told_is_told_next():
    limits = Limits(monotonic=lambda: 1.0, unix_time=lambda: 1.0)
    limits.events.extend(b"%d" % number for number in range(MAX_UNTOLD_EVENTS))
    await AuthorityLink(limits, Slow(limits))._exchange(1.0)
    assert list(limits.events) == [b"later %d" % number for number in range(50)]

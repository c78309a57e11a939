"""Whom a gateway asks about limits."""

import os

import pytest

from workers.gateway.limits import link
from workers.gateway.limits.authority import Ask, Reply
from workers.gateway.limits.link import OwnAuthority, ToldAuthority

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
    for at_s, odd in enumerate(("http://:a-password@host", "redis://:a-password@host:no-port"), start=1):
        say(file, odd, at_s)
        assert await asked(authority) == "own"
        assert "limits.url is no address" in authority.error
        assert authority.error in caplog.text
        assert "a-password" not in caplog.text
    say(file, "", 3)
    assert (await asked(authority), authority.error) == ("own", "")

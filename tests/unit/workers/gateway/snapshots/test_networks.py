import pytest

from workers.gateway.snapshots.networks import Ranges, client_address

pytestmark = pytest.mark.unit

PROXIES = Ranges(["127.0.0.1", "10.0.0.0/8"])


@pytest.mark.parametrize(
    ("ranges", "peer", "is_inside"),
    [
        (["10.1.0.0/16"], "10.1.255.255", True),
        (["10.1.0.0/16"], "10.2.0.0", False),
        (["10.1.0.0/16"], "::ffff:10.1.2.3", True),
        (["2001:db8::/32"], "2001:db8:ffff::1", True),
        (["2001:db8::/32"], "2001:db9::1", False),
        (["192.0.2.7"], "192.0.2.7", True),
        (["192.0.2.7"], "192.0.2.8", False),
        (["0.0.0.0/0"], "203.0.113.9", True),
        (["0.0.0.0/0"], "2001:db8::1", False),
        (["::/0"], "2001:db8::1", True),
        (["10.0.0.0/8", "10.1.0.0/16"], "10.200.0.1", True),
        (["fe80::/10"], "fe80::1%eth0", True),
        ([], "10.0.0.1", False),
    ],
)
def test_an_address_is_inside_the_ranges_that_cover_it(ranges, peer, is_inside):
    address = client_address(peer, [], PROXIES)
    assert (address in Ranges(ranges)) is is_inside


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "client"),
    [
        ("203.0.113.9", b"192.0.2.1", "203.0.113.9"),
        ("127.0.0.1", b"192.0.2.1", "192.0.2.1"),
        ("127.0.0.1", b"198.51.100.66, 192.0.2.1, 10.0.0.5", "192.0.2.1"),
        ("127.0.0.1", b"192.0.2.1:4431", "192.0.2.1"),
        ("127.0.0.1", b"198.51.100.66, [2001:db8::1]:443, 10.0.0.5:80", "2001:db8::1"),
        ("127.0.0.1", b"[2001:db8::1]", "2001:db8::1"),
        ("127.0.0.1", b"192.0.2.1:4431:2", "None"),
        ("127.0.0.1", b"", "127.0.0.1"),
        ("127.0.0.1", b"192.0.2.1, nonsense", "None"),
        ("", b"192.0.2.1", "None"),
    ],
)
def test_only_a_trusted_proxy_is_believed_about_the_client(peer, forwarded_for, client):
    assert str(client_address(peer, [forwarded_for], PROXIES)) == client


def test_what_a_client_says_of_itself_is_not_believed_beside_the_line_of_a_proxy():
    """HAProxy adds a line of its own below the client's."""
    assert str(client_address("127.0.0.1", [b"10.9.9.9", b"192.0.2.1"], PROXIES)) == "192.0.2.1"
    assert str(client_address("127.0.0.1", [b"192.0.2.1", b"10.0.0.5"], PROXIES)) == "192.0.2.1"


def test_a_way_that_is_too_long_is_read_from_its_end_and_hides_nobody():
    long = b"203.0.113.7, " * 5000
    assert str(client_address("127.0.0.1", [long + b"192.0.2.1"], PROXIES)) == "192.0.2.1"
    assert str(client_address("127.0.0.1", [b"10.0.0.1, " * 5000 + b"10.0.0.1"], PROXIES)) == "None"

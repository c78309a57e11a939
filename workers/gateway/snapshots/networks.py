"""Where a request comes from, and whether that is in a set of ranges: a look-up whose cost the set's size bounds."""

from asyncio import BaseTransport
from bisect import bisect_right
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, collapse_addresses, ip_address, ip_network

Address = IPv4Address | IPv6Address
_MAPPED = int(IPv6Address("::ffff:0:0"))
_MOST_HOPS = 30


class Ranges:
    """Disjoint and sorted; IPv4 is looked up as IPv6 maps it, so that a client is the same on either kind of socket."""

    def __init__(self, texts: Iterable[str]) -> None:
        merged = list(collapse_addresses(_mapped(text) for text in texts))
        self._firsts = [int(network.network_address) for network in merged]
        self._lasts = [int(network.broadcast_address) for network in merged]

    def __contains__(self, address: Address) -> bool:
        number = int(address) if isinstance(address, IPv6Address) else _MAPPED + int(address)
        index = bisect_right(self._firsts, number) - 1
        return index >= 0 and number <= self._lasts[index]


def client_address(peer: str, forwarded_for: Iterable[bytes], trusted: Ranges) -> Address | None:
    """The nearest address that is no trusted proxy of ours; None when there is none to believe.

    `forwarded_for` are the lines of that header as they came: some proxies add theirs to the client's, some below it.
    """
    address, said = _parsed(peer), b",".join(forwarded_for).decode("latin-1")
    hops = said.rsplit(",", _MOST_HOPS) if said else []  # what is before so many is no address, and not believed
    while hops and address is not None and address in trusted:
        address = _parsed(hops.pop())
    return address


def peer_of(transport: BaseTransport) -> str:
    """The address at the other end; "" when there is none."""
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) else ""


def _parsed(text: str) -> Address | None:
    try:
        address = ip_address(_without_port(text.strip()).partition("%")[0])
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def _without_port(text: str) -> str:
    """Some proxies write the client's port, too: `192.0.2.1:443`, `[2001:db8::1]:443`."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _mapped(text: str) -> IPv6Network:
    network = ip_network(text, strict=False)
    if isinstance(network, IPv6Network):
        return network
    return IPv6Network((_MAPPED + int(network.network_address), 96 + network.prefixlen))

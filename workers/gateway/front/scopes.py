"""What a key may be used for, and from where."""

from workers.gateway import errors
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.server import ClientConnection
from workers.gateway.snapshots.directory import Directory, Grant
from workers.gateway.snapshots.networks import client_address, peer_of


def require_scope(
    client: ClientConnection, request: HttpRequest, grant: Grant, directory: Directory, path: bytes
) -> None:
    """The key's own limits; most keys have none, and then nothing is parsed."""
    if not grant.may_ask(path):
        raise errors.path_not_in_scope(path.decode("utf-8", "replace"))
    if grant.networks is None:
        return
    forwarded_for = request.values(b"x-forwarded-for")
    address = client_address(peer_of(client.transport), forwarded_for, directory.trusted_proxies)
    if not grant.may_come_from(address):
        raise errors.address_not_in_scope()

"""Is a port free? A taken one is named with what wanted it and how to choose another."""

import errno
import socket

from deploy.local.configuration import HOST, Configuration


class PortTakenError(RuntimeError):
    """The message names the port and the way out."""


def check_ports(configuration: Configuration, *, with_engines: bool) -> None:
    """Raises PortTakenError. Engines' ports are not checked while engines of ours may hold them."""
    taken = [
        f"port {port} ({what}) is taken: free it, or choose another with `make up {variable}=…`"
        for port, (what, variable) in configuration.named_ports().items()
        if (with_engines or variable != "TOKENYARD_ENGINE_PORT_BASE") and not is_free(port)
    ]
    if taken:
        raise PortTakenError("\n".join(taken))


def is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True

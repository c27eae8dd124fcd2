"""The socket that the API listens on."""

from __future__ import annotations

import errno
import socket

from controlplane.core.errors import CannotListen


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 is any free one. Raises CannotListen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol by its name: asyncio sends small answers at once on such sockets only, else each
    # waits for 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(512)
    except OSError as error:
        bound.close()
        raise CannotListen(_unbound(error, host, port)) from error
    return bound


def url_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _unbound(error: OSError, host: str, port: int) -> str:
    """Why there is no socket, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use by another process: end that one, or choose another with --port"
    if error.errno == errno.EACCES:
        return f"port {port} of {host} is closed to this user: choose one above 1023 with --port"
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return f"{host} is no address of this machine: choose another with --host, such as 127.0.0.1 or 0.0.0.0"
    return f"port {port} of {host}: {error.strerror or error}: choose another with --host or --port"

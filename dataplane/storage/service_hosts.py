"""Hosts that no address of a user may lead to: link-local ones, by name too."""

from __future__ import annotations

import socket

from dataplane.contract.hosts import is_link_local


def leads_to_link_local(host: str) -> bool:
    """Whether a host, or an address that its name has, is link-local. A name without an address is
    not; opening it fails."""
    try:
        addresses = [
            str(address[0])
            for *_, address in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        ]
    except (OSError, UnicodeError):
        addresses = []
    return any(map(is_link_local, [host, *addresses]))

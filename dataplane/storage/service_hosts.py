"""Where hosts that a user names lead to, by the addresses of their names too."""

from __future__ import annotations

import socket
from ipaddress import ip_address

from dataplane.contract.hosts import is_link_local


def leads_to_link_local(host: str) -> bool:
    """Whether a host, or an address that its name has, is link-local. A name without an address is
    not; opening it fails."""
    return any(map(is_link_local, [host, *_addresses(host)]))


def leads_to_public(host: str) -> bool:
    """Whether an address that a host has is one of the public internet."""
    return any(ip_address(address.partition("%")[0]).is_global for address in _addresses(host))


def _addresses(host: str) -> list[str]:
    try:
        answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(address[0]) for *_, address in answers]

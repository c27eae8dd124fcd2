"""Hosts that no address of a user may name: link-local ones, where clouds serve a machine's own
credentials. Names of buckets, which stand where hosts do."""

from __future__ import annotations

import re
import unicodedata
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

REFUSED: Final = "is link-local, where clouds serve a machine's own credentials"

# Clients take what stands behind `@` alone: `s3://user@lake` would be another name of `s3://lake`
BUCKET: Final = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_NUMBER: Final = re.compile(r"0[xX][0-9A-Fa-f]{1,8}|0[0-7]{0,11}|[1-9][0-9]{0,9}", re.ASCII)
_HOST: Final = re.compile(
    r"[a-z]+://(?:[^/?#]*@)?(?:\[(?P<inner>[^\]]*)\]|(?P<plain>[^/?#:]*))", re.IGNORECASE
)


def is_link_local(host: str) -> bool:
    """Whether a host is an address of 169.254.0.0/16 or fe80::/10, in any form that the resolver
    takes: also as one number, in octal, in hexadecimal, or within an IPv6 address. A name is
    none."""
    # As in names of hosts
    address = _address(unicodedata.normalize("NFKC", host).replace("\u3002", "."))
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or _translated(address)
        return address.is_link_local or (inner is not None and inner.is_link_local)
    return address is not None and address.is_link_local


def names_link_local(url: str) -> bool:
    """The same for the host of a URL. A text that is no URL has none."""
    host = _HOST.match(url)
    return host is not None and is_link_local(host["inner"] or host["plain"] or "")


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        pass
    return _of_numbers(host.rstrip(".").split("."))


def _of_numbers(parts: list[str]) -> IPv4Address | None:
    """As `inet_aton` reads one to four numbers: each is a byte but the last, which fills the
    rest."""
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    numbers = [_number(part) for part in parts]
    rest = 4 - len(parts) + 1
    if any(byte > 0xFF for byte in numbers[:-1]) or numbers[-1] >= 1 << 8 * rest:
        return None
    head = sum(byte << 8 * (3 - at) for at, byte in enumerate(numbers[:-1]))
    return IPv4Address(head + numbers[-1])


def _number(text: str) -> int:
    """Hexadecimal behind 0x, octal behind another 0."""
    if text[:2] in ("0x", "0X"):
        return int(text[2:], 16)
    return int(text, 8 if text[0] == "0" else 10)


def _translated(address: IPv6Address) -> IPv4Address | None:
    """The address within one of NAT64 (RFC 6052), or within one that is compatible with IPv4."""
    prefix, last = int(address) >> 32, int(address) & 0xFFFF_FFFF
    return IPv4Address(last) if prefix in (0, 0x0064_FF9B << 64) else None

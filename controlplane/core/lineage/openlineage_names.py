"""What OpenLineage calls the places that read and write components name
(https://openlineage.io/docs/spec/naming/)."""

from __future__ import annotations

import re

from controlplane.core.blueprint import Read, Write
from controlplane.core.redaction import redacted

UNKNOWN = "headgate-place"  # namespace of places whose server is a secret, or is named by code


def place(body: Read | Write, location: str) -> tuple[str, str]:
    """Namespace and name. `location`: a path or URI; of connectors without one, the place in
    words."""
    settings = dict(body.settings)
    match body.connector:
        case "jdbc":
            return _table(str(settings.get("url") or ""), str(settings.get("table") or location))
        case "kafka":
            servers = str(settings.get("servers") or "")
            return _address(f"kafka://{servers.split(',')[0]}", servers), location
        case "feed":
            namespace, _, name = location.removeprefix("feed:").partition("/")
            return f"feed://{namespace}", name
        case _:
            return of_path(redacted(location))


def of_path(location: str) -> tuple[str, str]:
    """The same of a path or URI."""
    scheme, separator, rest = location.partition("://")
    if not separator:
        path = location.removeprefix("file:")
        return ("file", path) if path.startswith("/") else (UNKNOWN, location)
    if scheme == "file":
        return "file", "/" + rest.lstrip("/")
    authority, _, path = rest.partition("/")
    return f"{scheme}://{authority}", path or "/"


def _table(url: str, table: str) -> tuple[str, str]:
    """`jdbc:postgresql://host:5432/shop?...` and `public.orders`: `postgresql://host:5432` and
    `shop.public.orders`."""
    plain = re.split("[?;]", url, maxsplit=1)[0]  # what follows are settings, passwords among them
    if "secret:" in plain:
        return UNKNOWN, table
    scheme, _, rest = redacted(plain.removeprefix("jdbc:")).partition("://")
    authority, _, database = rest.partition("/")
    name = ".".join(filter(None, (database, table)))
    return _address(f"{scheme}://{authority.rpartition('@')[2]}", authority), name


def _address(namespace: str, server: str) -> str:
    """A server that a secret names is left out: the reference means nothing to other programs."""
    return UNKNOWN if not server or "secret:" in server else namespace

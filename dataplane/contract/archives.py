"""Archives whose members are source files: their kinds by name, and the addresses of members."""

from __future__ import annotations

from urllib.parse import quote, unquote

MEMBERS = "members"  # the setting with the glob that finds members
_KINDS = {
    ".zip": "zip",
    ".tar": "tar",
    ".tar.gz": "tar.gz",
    ".tgz": "tar.gz",
    ".tar.zst": "tar.zst",
}


def archive_kind(name: str) -> str | None:
    """`zip`, `tar`, `tar.gz` or `tar.zst` by the end of a name; None for a file of another kind."""
    kinds = (kind for suffix, kind in _KINDS.items() if name.lower().endswith(suffix))
    return next(kinds, None)


def member_uri(archive: str, name: str) -> str:
    """The address of a member. No URI of an archive has a `#`."""
    return f"{archive}#{quote(name)}"


def split_member(uri: str) -> tuple[str, str]:
    """The URI of the archive, and the name of the member in it; empty where `uri` is no
    member's."""
    archive, _, name = uri.partition("#")
    return archive, unquote(name)

"""Which texts are paths of the lake."""

from __future__ import annotations

# Starts the names of files that are not whole yet; control plane and Spark overlook them
TEMPORARY = ".tmp-"


def safe(path: str) -> str:
    """The path itself, if it stays below each root that it is joined to; ValueError
    otherwise."""
    if (
        not path
        or path.startswith("/")
        or "\0" in path
        or any(part in ("", ".", "..") for part in path.split("/"))
    ):
        raise ValueError(f"not a path in the lake: {path!r}")
    return path

"""Columns of the files of a table whose format gives fields an identity of their own: a name in
files under Delta's column mapping, a field id in Iceberg.

Schemas are Spark's JSON. The identity of a field is part of its `metadata`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from dataplane.contract.schemas import Json, fields_within
from dataplane.contract.source_objects import NESTED
from dataplane.listing.local_files import THREADS
from dataplane.listing.version_cache import FileReading, Seen, Stamp, Versions

Identity: TypeAlias = Callable[[Json], str]
_SHARE = 500  # files whose footers are read before they are remembered


def own_columns(
    fields: Iterable[Json], identity: Identity, is_own: Callable[[Json, str], bool]
) -> list[str]:
    """The present names of the columns that a file has, each followed by the fields in it.

    `is_own` gets a field and the NESTED path of identities that leads to it.
    """

    def walk(fields: Iterable[Json], place: str, named: str) -> Iterator[str]:
        for f in fields:
            inner, name = place + identity(f), named + f["name"]
            if is_own(f, inner):
                yield name
                yield from walk(fields_within(f["type"]), inner + NESTED, name + NESTED)

    return list(walk(fields, "", ""))


def identities_of(
    fields: Iterable[Json], columns: Iterable[str], identity: Identity
) -> dict[str, Json]:
    """The identities of these columns, and of the fields in them, by present names."""
    names = {name for name in columns if NESTED not in name}
    return {f["name"]: _identities(f, identity) for f in fields if f["name"] in names}


def _identities(field: Json, identity: Identity) -> Json:
    return [identity(field), _identities_within(field["type"], identity)]


def _identities_within(kind: Json, identity: Identity) -> Json:
    if isinstance(kind, Mapping) and kind["type"] == "map":
        sides = (kind["keyType"], kind["valueType"])
        return [_identities_within(side, identity) for side in sides]
    if isinstance(kind, Mapping) and kind["type"] == "array":
        return _identities_within(kind["elementType"], identity)
    return {f["name"]: _identities(f, identity) for f in fields_within(kind)}


def footers(
    reading: FileReading,
    paths: Sequence[str],
    cache: Versions,
    stamp_of: Callable[[str], Stamp],
    read: Callable[[str], list[str]],
) -> dict[str, Sequence[str]]:
    """What `read` finds in the footer of each file, by path: remembered, or read by threads."""
    contents: dict[str, Sequence[str]] = {}
    with ThreadPoolExecutor(THREADS) as threads:
        for start in range(0, len(paths), _SHARE):
            share = paths[start : start + _SHARE]
            stamps = {path: stamp_of(path) for path in share}
            cached = cache.unchanged(reading, stamps)
            began_ns, fresh = cache.now_ns(), [path for path in stamps if path not in cached]
            pairs = zip(fresh, threads.map(read, fresh), strict=True)
            new = {path: Seen(stamps[path], "", columns) for path, columns in pairs}
            cache.keep(reading, [(path, footer, began_ns) for path, footer in new.items()])
            contents |= {path: footer.columns or [] for path, footer in {**cached, **new}.items()}
    return contents

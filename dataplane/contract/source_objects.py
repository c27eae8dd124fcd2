"""What a listing finds: source objects, partitions of them, and their lines in a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NotRequired, TypedDict

from dataplane.contract.encoding import digest
from dataplane.contract.identity import Content
from dataplane.contract.key_folders import KeyFolders
from dataplane.contract.schemas import Json

NESTED = "\x1f"  # joins the names on the way to a nested field, among an object's own columns


def source_id(objects: Sequence[SourceObject], *, named: bool) -> bytes:
    """Identity of the source objects behind one partition.

    `named`: the names belong to it, because they enter the rows or the versions do not identify
    bytes.
    """
    if named:
        return digest("source/1", objects=sorted((o["name"], o["version"]) for o in objects))
    return digest("source/1", objects=sorted(o["version"] for o in objects))


def source_of(objects: Sequence[SourceObject], metadata: Sequence[str]) -> bytes:
    """Source id of one partition's objects: names and times belong to it only if they enter the
    rows.

    Where a version does not identify bytes (an etag), the full location belongs to it. Values of
    folders that are columns belong to it.
    """
    objects = [_with_folders(o) for o in objects]
    if "modified" in metadata:
        objects = [{**o, "version": f"{o['version']}@{o['modified_ms']}"} for o in objects]
    if not all(map(is_of_bytes, objects)):
        objects = [{**o, "name": o["uri"]} for o in objects]
        return source_id(objects, named=True)
    return source_id(objects, named="name" in metadata)


def _with_folders(source: SourceObject) -> SourceObject:
    if "folders" not in source:
        return source
    return {**source, "version": f"{source['version']}/{json.dumps(source['folders'])}"}


def is_of_bytes(source: SourceObject) -> bool:
    """The version identifies the object's bytes, wherever it lies."""
    return source["version"].startswith("sha256:")


class SourceObject(TypedDict):
    """One thing that a read connector lists. `version` starts with its kind: `sha256:` of the
    bytes, wherever they lie, or `etag:`, which means something together with `uri` only. It moves
    if and only if the data may have changed."""

    name: str
    uri: str
    size: int
    modified_ms: int
    version: str
    # Own columns in file order, fields of structs by NESTED paths; None: unknown
    columns: list[str] | None
    # Columns that its folders give; absent where these give none, or are not read
    folders: NotRequired[KeyFolders]
    detail: NotRequired[Json]  # what its connector alone has to know to read it


def listed_at_ms(objects: Iterable[SourceObject]) -> int:
    """When the newest of these was listed, in milliseconds since 1970; 0: not known."""
    details = (source.get("detail") or {} for source in objects)
    return max((int(detail.get("listed_ms", 0)) for detail in details), default=0)


def columns_of(source: SourceObject) -> list[str] | None:
    """The columns of an object's rows: its own, then the keys of its folders that are none of
    these."""
    own = source["columns"]
    if own is None or "folders" not in source:
        return own
    return list(dict.fromkeys([*own, *(key for key, _ in source["folders"])]))


def is_folder_column(source: SourceObject, key: str) -> bool:
    """Whether a folder alone gives a column; also where the object's own columns are unknown."""
    return key not in (source["columns"] or ())


def folder_columns(objects: Iterable[SourceObject]) -> frozenset[str]:
    """The columns that folders alone give some of these objects. Their values are texts in any
    format."""
    return frozenset(
        key for o in objects for key, _ in o.get("folders", ()) if is_folder_column(o, key)
    )


class ListedPartition(TypedDict):
    """The objects behind one partition, and what a listing's tree holds of them."""

    key: str
    source: str  # source id, hex
    content: list[int]  # number of objects, their bytes, and 64 bits that tell where they lie
    objects: list[SourceObject]


class ListingResult(TypedDict):
    """What a `list` task found: partitions in order of their keys, inline or as lines of a gzip
    file."""

    digest: str  # SHA-256 (hex) over the lines of all partitions
    objects: int
    bytes: int
    # Distinct own columns of objects, in the order in which they first come
    columns: list[list[str] | None]
    all_columns: bool  # there are no more of them
    partitions: NotRequired[list[ListedPartition]]
    file: NotRequired[str]  # its name below the attempt's prefix
    # These only add to a listing with this last key (None: without any)
    after: NotRequired[str | None]


def listing_line(partition: ListedPartition) -> bytes:
    """One partition as a line of a listing, the same for equal values. The objects come last: few
    readers want them."""
    ordered = {name: partition[name] for name in ("key", "source", "content", "objects")}
    return _encode(ordered).encode() + b"\n"


def listing_head(line: bytes) -> tuple[str, bytes, Content]:
    """Key, source id and content of a line, without reading the objects in it. ValueError if it is
    no such line."""
    # No text in JSON holds a quotation mark without a backslash before it
    head, mark, _ = line.partition(_OBJECTS)
    if not mark:
        raise ValueError("a line of a listing without objects")
    key, source, content = _decode(f"{head.decode()}}}").values()
    return key, bytes.fromhex(source), Content(*content)


_OBJECTS = b',"objects":'
_encode, _decode = json.JSONEncoder(separators=(",", ":")).encode, json.JSONDecoder().decode

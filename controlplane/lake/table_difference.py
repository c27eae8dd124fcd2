"""Which files a published table must gain and lose: pure, over sets of paths.

A table cannot hold one path twice, so every copy of a file beyond the first gets a link below the
table's own root. So does every file that lies outside the table's folder, unless the table borrows
files: then it names them where they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, NamedTuple, TypeAlias

from dataplane.contract.results import FileEntry, file_names
from dataplane.contract.schemas import Schema, canonical_schema

LINKS = "_frags/links"
_LINK = re.compile(rf"{LINKS}/[0-9a-f]{{2}}/([0-9a-f]{{32}})-[0-9]+/([^/]+)")
_SAFE = re.compile(r"[0-9A-Za-z._=/-]+")


class FileKey(NamedTuple):
    """What a file is, wherever it is linked to: the fragment's id (32 hexadecimal digits) and the
    file's name in it (`file_names`)."""

    fragment: str
    name: str


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file of a fragment that the table is to hold `copies` times. `own` is its path if it lies
    in the table, or its address if the table borrows it."""

    entry: FileEntry
    copies: int
    own: str | None


@dataclass(frozen=True, slots=True)
class Add:
    """A path that becomes active. `source` is the path in the lake that must be linked there first,
    if any."""

    path: str
    entry: FileEntry
    source: str | None


@dataclass(frozen=True, slots=True)
class TableDiff:
    adds: tuple[Add, ...]
    removes: tuple[str, ...]


class WantedFragment(NamedTuple):
    """A fragment of a request to the publisher: its id (32 hexadecimal digits) and files."""

    id: str
    files: tuple[FileEntry, ...]


def wanted_files(
    table: str, fragments: Iterable[WantedFragment], lake: str = ""
) -> dict[FileKey, WantedFile]:
    """Every file that the table in the folder `table` is to hold. `lake`: the address of the lake,
    where the table borrows files. ValueError for names that Delta would escape."""
    copies = Counter[FileKey]()
    entries: dict[FileKey, FileEntry] = {}
    for fragment in fragments:
        for name, file in zip(file_names(fragment.files), fragment.files, strict=True):
            key = FileKey(fragment.id, name)
            copies[key] += 1
            entries[key] = file
    return {
        key: WantedFile(e, copies[key], _own(table, e["path"], lake)) for key, e in entries.items()
    }


def _own(table: str, path: str, lake: str) -> str | None:
    if not _SAFE.fullmatch(path):
        raise ValueError(f"not a name for a published file: {path!r}")
    if path.startswith(f"{table}/"):
        return path.removeprefix(f"{table}/")
    return f"{lake}/{path}" if lake else None


def difference(files: Mapping[FileKey, WantedFile], active: Mapping[str, int]) -> TableDiff:
    """What turns the active paths (with their sizes) into the wanted files. No path is in both
    lists."""
    paths_by_key = _kept_paths(files, active)
    used_paths = set(active)
    adds = [
        add
        for key, want in files.items()
        for add in _copies(key, want, want.copies - len(paths_by_key.get(key, ())), used_paths)
    ]
    keeping = {path for paths in paths_by_key.values() for path in paths}
    return TableDiff(tuple(adds), tuple(sorted(set(active) - keeping)))


def replacement(files: Mapping[FileKey, WantedFile], active: Collection[str]) -> TableDiff:
    """All wanted files at paths that are not active now, in place of everything that is."""
    used_paths = set(active)
    adds = [
        add for key, want in files.items() for add in _copies(key, want, want.copies, used_paths)
    ]
    return TableDiff(tuple(adds), tuple(sorted(active)))


def _kept_paths(
    files: Mapping[FileKey, WantedFile], active: Mapping[str, int]
) -> dict[FileKey, list[str]]:
    own = {want.own: key for key, want in files.items() if want.own}
    paths_by_key: dict[FileKey, list[str]] = {}
    # Rather the file itself than a link
    for path in sorted(active, key=lambda p: (p not in own, p)):
        key = own.get(path) or _linked(path)
        want = files.get(key) if key else None
        if (
            key
            and want
            and want.entry["size"] == active[path]
            and len(paths_by_key.get(key, ())) < want.copies
        ):
            paths_by_key.setdefault(key, []).append(path)
    return paths_by_key


def _linked(path: str) -> FileKey | None:
    match = _LINK.fullmatch(path)
    return FileKey(match[1], match[2]) if match else None


def _copies(key: FileKey, want: WantedFile, number: int, used_paths: set[str]) -> Iterator[Add]:
    free = (path for path in _places(key, want) if path not in used_paths)
    for _ in range(number):
        path = next(free)
        used_paths.add(path)
        yield Add(path, want.entry, None if path == want.own else want.entry["path"])


def _places(key: FileKey, want: WantedFile) -> Iterator[str]:
    if want.own:
        yield want.own
    yield from (
        f"{LINKS}/{key.fragment[:2]}/{key.fragment}-{k}/{key.name}"
        for k in count(1 if want.own else 0)
    )


# --- schemas ------------------------------------------------------------------------------------

Relation: TypeAlias = Literal["same", "widened", "other"]


def relation(old: Schema, new: Schema) -> Relation:
    """`widened`: the new schema is the old one with columns added at its end."""
    before, after = canonical_schema(old)["fields"], new["fields"]
    if before == after:
        return "same"
    return "widened" if after[: len(before)] == before else "other"


def unpublishable(kind: Any) -> str | None:
    """The first type in a schema that a Delta table without special features cannot hold."""
    match kind:
        case {"type": "struct", "fields": fields}:
            return next((bad for f in fields if (bad := unpublishable(f["type"]))), None)
        case {"type": "array", "elementType": element}:
            return unpublishable(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            return unpublishable(key) or unpublishable(value)
        case str() if kind in _TYPES or re.fullmatch(r"decimal\(\d+,-?\d+\)", kind):
            return None
        case _:
            return str(kind)


_NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double"})
_TYPES = _NUMBERS | {"string", "binary", "boolean", "date", "timestamp", "timestamp_ntz"}

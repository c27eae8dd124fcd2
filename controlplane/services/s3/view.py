"""The S3 view of one namespace: which objects a key finds, by path and in pages.

All datasets of a listing are as of the time of its first page. If a page ends within a dataset, the
next page knows the generation: a transaction that began before the first page may be committed
after it, so the time is not enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from controlplane.core.model.addresses import Generation, Moment, Point
from controlplane.core.model.states import State
from controlplane.operations.inspect.time_travel import is_before_gap
from controlplane.ports.lake import MakeCheckpoint, ObjectStore
from controlplane.ports.store import Store, Tx
from controlplane.services.s3 import levels, s3_addresses
from controlplane.services.s3.key_scope import OutOfScope, Reader
from controlplane.services.s3.s3_addresses import TableAddress
from controlplane.services.s3.s3_objects import S3Object, TableObjects

LAST = "\U0010ffff"  # behind all that begins with what stands before it
FEW = 64  # objects that are looked up at a time where most may be skipped
STEPS = 4  # through names with one common prefix, before it is skipped


class NoSuchListing(Exception):
    """The state at the beginning of a listing is no longer kept."""


@dataclass(frozen=True, slots=True)
class ListingPosition:
    """Where the next page of a listing begins. `milliseconds`: the time of the first page.
    `generation`: of the dataset that `after` lies in; 0 if nothing of it was shown."""

    milliseconds: int
    after: str
    generation: int = 0


@dataclass(frozen=True, slots=True)
class ObjectPageRequest:
    """A page of a listing. `after`: behind this key; a position goes before it."""

    prefix: str = ""
    delimiter: str = ""
    after: str = ""
    limit: int = 1000
    position: ListingPosition | None = None


@dataclass(frozen=True, slots=True)
class ObjectPage:
    """Objects by their whole keys, and common prefixes. `next`: None on the last page."""

    objects: tuple[S3Object, ...]
    prefixes: tuple[str, ...]
    next: ListingPosition | None


class S3View:
    """Safe to use from many threads."""

    def __init__(
        self,
        store: Store,
        lake: ObjectStore,
        namespace: str = "default",
        *,
        make_checkpoint: MakeCheckpoint,
    ) -> None:
        self.namespace = namespace
        self._store = store
        self._objects = TableObjects(lake, namespace, make_checkpoint)

    def find(self, reader: Reader, path: str) -> S3Object | None:
        """Raises OutOfScope, whether there is such an object or not."""
        split = s3_addresses.split(path)
        if split is None:
            return None
        table, name = split
        if not reader.may_read(table):
            raise OutOfScope("the scopes of this key do not cover this object")
        with self._store.read(self.namespace) as tx:
            state = _state(tx, table, table.point) if _is_there(tx, table) else None
            s3_object = None if state is None else self._objects.find(tx, table, state, name)
        return None if s3_object is None else s3_object._replace(name=path)

    def find_at_once(self, reader: Reader, path: str) -> S3Object | None:
        """As `find`, for most requests: files of the newest state, or of a generation. None: call
        `find`, which also reports that the reader may not see it."""
        split = s3_addresses.split(path)
        if split is None or split[0].ref.time is not None or not reader.may_read(split[0]):
            return None
        table, name = split
        with self._store.read(self.namespace) as tx:
            state = (
                tx.states.find(table.ref.branch, table.name, table.point)
                if _is_there(tx, table)
                else None
            )
            s3_object = None if state is None else self._objects.find_part(tx, state, name)
        return None if s3_object is None else s3_object._replace(name=path)

    def page(self, reader: Reader, request: ObjectPageRequest) -> ObjectPage:
        """Raises OutOfScope for a prefix below which the key reads nothing, and NoSuchListing."""
        reader.check_prefix(request.prefix)
        with self._store.read(self.namespace) as tx:
            position = request.position or ListingPosition(int(tx.now() * 1000), request.after)
            if request.limit < 1:
                return ObjectPage((), (), None)
            if request.delimiter == "/" and levels.is_above_tables(request.prefix):
                return _level(tx, reader, request, position)
            return _Listing(tx, reader, self._objects, request, position).page()


def _is_there(tx: Tx, table: TableAddress) -> bool:
    return levels.is_there(tx, table.ref)


def _state(tx: Tx, table: TableAddress, point: Point | None) -> State | None:
    """None also where the state of a ref's time is no longer kept, and an older one still is."""
    newest = tx.states.find(table.ref.branch, table.name, point)
    if newest is None or table.ref.time is None or not isinstance(point, Moment):
        return newest
    return None if is_before_gap(tx, table.ref.branch, newest, point) else newest


def _level(
    tx: Tx, reader: Reader, request: ObjectPageRequest, position: ListingPosition
) -> ObjectPage:
    names = levels.names(tx, reader, request.prefix)
    rest = [name for name in names if name > position.after]
    shown = rest[: request.limit]
    next_position = (
        replace(position, after=shown[-1], generation=0) if len(rest) > request.limit else None
    )
    return ObjectPage((), tuple(shown), next_position)


class _Listing:
    """One page at work."""

    def __init__(
        self,
        tx: Tx,
        reader: Reader,
        objects: TableObjects,
        request: ObjectPageRequest,
        position: ListingPosition,
    ) -> None:
        self._tx, self._reader, self._objects = tx, reader, objects
        self._request, self._begin = request, position
        self._moment = Moment(position.milliseconds)
        # The one that it began with, and the next page's
        self._ahead = FEW if request.delimiter else request.limit + 2
        self._shown: dict[str, int] = {}  # folder of the dataset that is shown -> its generation

    def page(self) -> ObjectPage:
        objects: list[S3Object] = []
        prefixes: list[str] = []
        last, steps = "", 0
        objects_left = self._walk(self._behind(self._begin.after))
        while (s3_object := next(objects_left, None)) is not None:
            common = self._common(s3_object.name)
            if common and prefixes and prefixes[-1] == common:
                steps += 1
                if steps == STEPS:
                    objects_left = self._walk(common + LAST)
                continue
            if len(objects) + len(prefixes) == self._request.limit:
                return ObjectPage(tuple(objects), tuple(prefixes), self._next(last))
            if common:
                prefixes.append(common)
            else:
                objects.append(s3_object)
            last, steps = common or s3_object.name, 0
        return ObjectPage(tuple(objects), tuple(prefixes), None)

    def _next(self, last: str) -> ListingPosition:
        split = s3_addresses.split(last)
        generation = self._shown.get(split[0].folder, 0) if split else 0
        return ListingPosition(self._begin.milliseconds, last, generation)

    def _common(self, name: str) -> str:
        """The common prefix that a key is shown by; empty if it is shown itself."""
        delimiter, prefix = self._request.delimiter, self._request.prefix
        cut = name.find(delimiter, len(prefix)) if delimiter else -1
        return name[: cut + len(delimiter)] if cut >= 0 else ""

    def _behind(self, after: str) -> str:
        """A page that ended with a common prefix goes on behind all that it stands for."""
        is_common = after != "" and self._common(after) == after
        return after + LAST if is_common else after

    def _walk(self, after: str) -> Iterator[S3Object]:
        """Objects with the prefix, by their whole keys, behind `after`."""
        prefix = self._request.prefix
        for table in levels.tables(self._tx, self._reader, prefix, after):
            yield from self._of_table(table, prefix, after)

    def _of_table(self, table: TableAddress, prefix: str, after: str) -> Iterator[S3Object]:
        folder = table.folder
        state = _state(self._tx, table, self._point(table))
        if state is None:
            self._check_there(table)
            return
        self._shown[folder] = state.generation
        inner = prefix.removeprefix(folder) if prefix.startswith(folder) else ""
        start = after.removeprefix(folder) if after.startswith(folder) else ""
        for name, size, etag, at, source in self._objects.since(
            self._tx, table, state, max(start, inner), self._ahead
        ):
            if not name.startswith(inner):
                return
            if name > start:
                yield S3Object(folder + name, size, etag, at, source)

    def _point(self, table: TableAddress) -> Point:
        if self._is_started(table):
            return Generation(self._begin.generation)
        if table.generation is not None:
            return table.generation
        time = table.ref.time
        return (
            self._moment if time is None or time.milliseconds > self._moment.milliseconds else time
        )

    def _is_started(self, table: TableAddress) -> bool:
        return self._begin.generation > 0 and self._begin.after.startswith(table.folder)

    def _check_there(self, table: TableAddress) -> None:
        if self._is_started(table):
            raise NoSuchListing(
                f"{table.folder} of the time when this listing began is not kept any more; list again"
            )

"""Tree nodes, and what listings of sources found. Does not belong here: the shape of trees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

from sqlalchemy import BigInteger, Column, ColumnElement, case, func, select, update
from sqlalchemy import bindparam as bind

from controlplane.core.model import change_marks
from controlplane.core.model.sources import Listing, SourcePartition, StoredPlanListing
from controlplane.store.rules import NODE_FRESH_S
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import KEYS_A_STATEMENT, TableGroup, chunks
from controlplane.store.sql.row_records import Record
from controlplane.store.sql.statements import Insert, equal, one_of, one_of_pairs

ROWS_A_STATEMENT = 1000  # of partitions, whose objects are wide
OF_PLANS = '%"look":%'  # in what they are held for

_LISTINGS = Record(db.listings, Listing)
_PARTITIONS = Record(db.source_partitions, SourcePartition)
_LISTING, _PARTITION = db.listings.c, db.source_partitions.c
_PAIRS = select(db.source_partitions).where(
    equal(db.source_partitions), one_of_pairs(_PARTITION.listing, _PARTITION.key)
)
# In one order, so that two of these do not wait for each other. SQLite has one writer at a time
_LOCKED = (
    select(db.listings)
    .where(equal(db.listings), one_of(_LISTING.id))
    .order_by(_LISTING.id)
    .with_for_update()
)
_OF_PLANS = select(db.listings).where(equal(db.listings), _LISTING.held.like(OF_PLANS))
_SIZES = (
    select(
        _PARTITION.listing,
        func.sum(func.length(_PARTITION.key) + func.length(_PARTITION.objects)).label("size"),
    )
    .where(equal(db.source_partitions), one_of(_PARTITION.listing))
    .group_by(_PARTITION.listing)
)


def _greatest(column: Column[int], other: ColumnElement[int]) -> ColumnElement[int]:
    return case((column > other, column), else_=other)


_SERVED = _greatest(_LISTING.served, bind("at_least", type_=BigInteger))
_CONFIRM = update(db.listings).where(equal(db.listings, "id")).values(served=_SERVED)

_AGAIN = (
    update(db.listings)
    .where(equal(db.listings), one_of(_LISTING.id), _LISTING.requested <= _LISTING.served)
    .values(requested=_LISTING.served + 1)
)


@cache
def _put_nodes(insert: Insert) -> Any:
    statement = insert(db.nodes)
    again, at = {"at": statement.excluded.at}, db.nodes.c.at
    is_old = at < statement.excluded.at - NODE_FRESH_S
    return statement.on_conflict_do_update(
        index_elements=list(db.nodes.primary_key), set_=again, where=is_old
    )


@cache
def _put_listing(insert: Insert) -> Any:
    statement = insert(db.listings)
    new = {
        column.name: statement.excluded[column.name]
        for column in db.listings.c
        if not column.primary_key
    }
    for counter in ("requested", "served"):  # a request that came meanwhile is not lost
        new[counter] = _greatest(_LISTING[counter], statement.excluded[counter])
    return statement.on_conflict_do_update(index_elements=list(db.listings.primary_key), set_=new)


class SqlNodes(TableGroup):
    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        rows = self._rows_among(db.nodes, "digest", digests)
        return {row.digest: row.body for row in rows}

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        """An existing node stays as it is; only if it was last put long ago, its time is
        renewed."""
        rows = [
            {"digest": digest, "at": self._now(), "body": body} for digest, body in nodes.items()
        ]
        self._insert_rows(db.nodes, _put_nodes(self._dialect.insert), rows)


class SqlListings(TableGroup):
    def get(self, ids: Iterable[bytes]) -> dict[bytes, Listing]:
        rows = self._rows_among(db.listings, "id", ids)
        return {listing.id: listing for listing in _LISTINGS.from_rows(rows)}

    def locked(self, ids: Iterable[bytes]) -> dict[bytes, Listing]:
        return {listing.id: listing for listing in _LISTINGS.from_rows(self._rows_by(_LOCKED, ids))}

    def put(self, listing: Listing) -> None:
        self._mark("", change_marks.listing(listing.id))
        self._insert_rows(
            db.listings, _put_listing(self._dialect.insert), [_LISTINGS.to_row(listing)]
        )

    def request_again(self, ids: Iterable[bytes]) -> None:
        self._change_by(_AGAIN, ids)

    def confirm(self, id: bytes, served: int) -> None:
        self._change(_CONFIRM, of_id=id, at=self._now(), at_least=served)

    def partitions(self, listing: bytes, keys: Iterable[str]) -> dict[str, SourcePartition]:
        rows = self._rows_among(db.source_partitions, "key", keys, listing=listing)
        return {partition.key: partition for partition in _PARTITIONS.from_rows(rows)}

    def partitions_of(
        self, keys: Mapping[bytes, Sequence[str]]
    ) -> dict[bytes, dict[str, SourcePartition]]:
        by_listing: dict[bytes, dict[str, SourcePartition]] = {listing: {} for listing in keys}
        for chunk in chunks([(listing, key) for listing, some in keys.items() for key in some]):
            ids, names = zip(*chunk, strict=True)
            for row in self._rows(_PAIRS, digests=ids, keys=names):
                by_listing[row.listing][row.key] = _PARTITIONS.from_row(row)
        return by_listing

    def put_partitions(
        self, listing: bytes, changed: Iterable[SourcePartition], removed: Iterable[str]
    ) -> None:
        table, keys, parts = db.source_partitions, iter(removed), iter(changed)
        while chunk := list(islice(keys, KEYS_A_STATEMENT)):
            self._delete_among(table, "key", chunk, listing=listing)
        while some := list(islice(parts, ROWS_A_STATEMENT)):
            self._upsert(table, [{"listing": listing, **_PARTITIONS.to_row(p)} for p in some])

    def of_plans(self) -> Sequence[StoredPlanListing]:
        rows = self._rows(_OF_PLANS)
        look_of = {
            row.id: look for row in rows if (look := _LISTINGS.from_row(row).look) is not None
        }
        sizes = {row.listing: int(row.size) for row in self._rows_by(_SIZES, look_of)}
        return [
            StoredPlanListing(id, look["since"], sizes.get(id, 0)) for id, look in look_of.items()
        ]

    def drop(self, ids: Iterable[bytes]) -> None:
        parts, own = db.source_partitions, db.listings
        for chunk in chunks(list(ids)):
            self._delete_among(parts, "listing", chunk)
            self._delete_among(own, "id", chunk)

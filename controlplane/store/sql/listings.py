"""Tree nodes, and what listings of sources found. Does not belong here: the shape of trees."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from sqlalchemy import Row, delete, func, literal, select, update

from controlplane.core.model import change_marks
from controlplane.core.model.sources import Listing, SourcePartition, StoredPlanListing
from controlplane.store.rules import NODE_FRESH_S
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import KEYS_A_STATEMENT, Part, chunks, dump, dump_optional, load_optional

ROWS_A_STATEMENT = 1000  # of partitions, whose objects are wide
OF_PLANS = '%"look":%'  # in what they are held for


class SqlListings(Part):
    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        rows = self._among(self._select(db.nodes), db.nodes.c.digest, digests)
        return {row.digest: row.body for row in rows}

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        """One that is there stays as it is; only if that was long ago, it is noted that somebody wants it again."""
        insert, at = self._dialect.insert(db.nodes), db.nodes.c.at
        again = {"index_elements": list(db.nodes.primary_key), "set_": {"at": insert.excluded.at}}
        put = insert.on_conflict_do_update(**again, where=at < insert.excluded.at - NODE_FRESH_S)
        rows = [{"digest": digest, "at": self.now(), "body": body} for digest, body in nodes.items()]
        self._insert_rows(db.nodes, put, rows)

    def listings(self, ids: Iterable[bytes]) -> dict[bytes, Listing]:
        rows = self._among(self._select(db.listings), db.listings.c.id, ids)
        return {row.id: _listing(row) for row in rows}

    def put_listing(self, listing: Listing) -> None:
        self._mark("", change_marks.listing(listing.id))
        row = _listing_row(listing)
        insert = self._dialect.insert(db.listings).values(namespace=self._namespace, **row)
        new = {name: insert.excluded[name] for name in row if name != "id"}
        for counter in ("requested", "served"):  # a request that came meanwhile is not lost
            new[counter] = self._dialect.greatest(db.listings.c[counter], insert.excluded[counter])
        self._connection.execute(insert.on_conflict_do_update(index_elements=["namespace", "id"], set_=new))

    def confirm_listing(self, id: bytes, served: int) -> None:
        most = self._dialect.greatest(db.listings.c.served, literal(served))
        self._change(update(db.listings).where(self._mine(db.listings, id=id)).values(at=self.now(), served=most))

    def source_partitions(self, listing: bytes, keys: Iterable[str]) -> dict[str, SourcePartition]:
        wanted = self._select(db.source_partitions, listing=listing)
        rows = self._among(wanted, db.source_partitions.c.key, keys)
        return {r.key: SourcePartition(r.key, r.source, tuple(json.loads(r.objects))) for r in rows}

    def partitions_of(self, keys: Mapping[bytes, Sequence[str]]) -> dict[bytes, dict[str, SourcePartition]]:
        table = db.source_partitions
        found: dict[bytes, dict[str, SourcePartition]] = {listing: {} for listing in keys}
        for chunk in chunks([(listing, key) for listing, some in keys.items() for key in some]):
            these = self._dialect.among_pairs(table.c.listing, table.c.key, chunk)
            for row in self._rows(self._select(table).where(these)):
                found[row.listing][row.key] = SourcePartition(row.key, row.source, tuple(json.loads(row.objects)))
        return found

    def put_source_partitions(self, listing: bytes, changed: Iterable[SourcePartition], gone: Iterable[str]) -> None:
        table, keys, parts = db.source_partitions, iter(gone), iter(changed)
        theirs = delete(table).where(self._mine(table, listing=listing))
        while chunk := list(islice(keys, KEYS_A_STATEMENT)):
            self._change_among(theirs, table.c.key, chunk)
        while some := list(islice(parts, ROWS_A_STATEMENT)):
            self._upsert(table, [_partition_row(listing, partition) for partition in some])

    def plan_listings(self) -> Sequence[StoredPlanListing]:
        table, parts = db.listings, db.source_partitions.c
        rows = self._rows(self._select(table).where(table.c.held.like(OF_PLANS)))
        looks = {row.id: look for row in rows if (look := _listing(row).look) is not None}
        size = func.sum(func.length(parts.key) + func.length(parts.objects))
        of_each = select(parts.listing, size.label("size")).where(self._mine(db.source_partitions))
        sizes: dict[bytes, int] = {}
        for chunk in chunks(list(looks)):
            for row in self._rows(of_each.where(parts.listing.in_(chunk)).group_by(parts.listing)):
                sizes[row.listing] = int(row.size)
        return [StoredPlanListing(id, look["since"], sizes.get(id, 0)) for id, look in looks.items()]

    def drop_listings(self, ids: Iterable[bytes]) -> None:
        parts, own = db.source_partitions, db.listings
        for chunk in chunks(list(ids)):
            self._change_among(delete(parts).where(self._mine(parts)), parts.c.listing, chunk)
            self._change_among(delete(own).where(self._mine(own)), own.c.id, chunk)


def _partition_row(listing: bytes, partition: SourcePartition) -> dict[str, Any]:
    objects = dump(partition.objects)
    return {"listing": listing, "key": partition.key, "source": partition.source, "objects": objects}


def _columns(text: str) -> tuple[tuple[str, ...] | None, ...]:
    return tuple(None if names is None else tuple(names) for names in json.loads(text))


def _listing(row: Row[Any]) -> Listing:
    return Listing(
        id=row.id,
        root=row.root,
        at=row.at,
        objects=row.objects,
        size_bytes=row.size_bytes,
        requested=row.requested,
        served=row.served,
        error=load_optional(row.error),
        held=load_optional(row.held),
        digest=row.digest,
        columns=_columns(row.columns),
        all_columns=row.all_columns,
    )


def _listing_row(listing: Listing) -> dict[str, Any]:
    return {
        "id": listing.id,
        "root": listing.root,
        "at": listing.at,
        "objects": listing.objects,
        "size_bytes": listing.size_bytes,
        "requested": listing.requested,
        "served": listing.served,
        "error": dump_optional(listing.error),
        "held": dump_optional(listing.held),
        "digest": listing.digest,
        "columns": dump(listing.columns),
        "all_columns": listing.all_columns,
    }

"""Tree nodes, and what listings of sources found. Does not belong here: the shape of trees."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Row, delete

from controlplane.core.model import Listing, SourcePartition
from controlplane.store import tables as db
from controlplane.store.part import Part, dump, dump_optional, load_optional


class Listed(Part):
    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        rows = self._among(self._select(db.nodes), db.nodes.c.digest, digests)
        return {row.digest: row.body for row in rows}

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        self._insert(db.nodes, [{"digest": digest, "body": body} for digest, body in nodes.items()])

    def listings(self, ids: Iterable[bytes]) -> dict[bytes, Listing]:
        rows = self._among(self._select(db.listings), db.listings.c.id, ids)
        return {row.id: _listing(row) for row in rows}

    def put_listing(self, listing: Listing) -> None:
        row = _listing_row(listing)
        insert = self._dialect.insert(db.listings).values(namespace=self._namespace, **row)
        new = {name: insert.excluded[name] for name in row if name != "id"}
        for counter in ("requested", "served"):  # a request that came meanwhile is not lost
            new[counter] = self._dialect.greatest(db.listings.c[counter], insert.excluded[counter])
        self._connection.execute(insert.on_conflict_do_update(index_elements=["namespace", "id"], set_=new))

    def source_partitions(self, listing: bytes, keys: Iterable[str]) -> dict[str, SourcePartition]:
        wanted = self._select(db.source_partitions, listing=listing)
        rows = self._among(wanted, db.source_partitions.c.key, keys)
        return {r.key: SourcePartition(r.key, r.source, tuple(json.loads(r.objects))) for r in rows}

    def put_source_partitions(self, listing: bytes, changed: Iterable[SourcePartition], gone: Iterable[str]) -> None:
        table = db.source_partitions
        self._change_among(delete(table).where(self._mine(table, listing=listing)), table.c.key, gone)
        new = ({"key": p.key, "source": p.source, "objects": dump(p.objects)} for p in changed)
        self._upsert(table, [{"listing": listing, **row} for row in new])


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
    }

"""A dataset whose generations are Parquet files of a few rows, in a store in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from controlplane.core import tree
from controlplane.core.model.addresses import Generation
from controlplane.core.model.answers import DataDifference
from controlplane.core.model.answers.data_diff import RowDifference
from controlplane.core.model.tasks import Fragment
from controlplane.operations.context import Context
from controlplane.operations.inspect import data_diff
from controlplane.ports.row_diff import ComparedFiles, CompareRows
from dataplane.contract.identity import Content, fragment_id
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import Schema, field_of, struct_of
from dataplane.fragments.arrow import arrow_schema
from tests.store.examples import state, trace
from tests.stores import new_store

DATASET = "shop.totals"
SCHEMA = struct_of([field_of("k", "long"), field_of("v", "string")])
Rows = tuple[dict[str, Any], ...]


def rows(*pairs: tuple[int, str]) -> Rows:
    return tuple({"k": k, "v": v} for k, v in pairs)


@dataclass
class Recorded:
    """Compares nothing, and remembers what it was to compare."""

    asked: list[ComparedFiles] = field(default_factory=list)

    def __call__(self, files: ComparedFiles, *, timeout_s: float) -> RowDifference:
        self.asked.append(files)
        return data_diff.NO_ROWS


class Kept:
    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, new_store()
        self.ctx, self.seq = Context(self.store), 0

    def commit(
        self, partitions: Mapping[str, Rows], schema: Schema = SCHEMA, *, writes: bool = True
    ) -> int:
        """One more generation. Rows are the same wherever they are; `writes`: files are there,
        too."""
        self.seq += 1
        fragments = {
            key: self.fragment(found, schema, writes=writes) for key, found in partitions.items()
        }
        with self.store.begin() as tx:
            tx.traces.put([trace(self.seq)], list(fragments.values()))
            entries = [tree.Entry(key, f.id, f.content) for key, f in sorted(fragments.items())]
            root, total = (
                tree.build(tx.nodes, entries),
                sum(f.content.rows for f in fragments.values()),
            )
            made = state(
                self.seq, DATASET, root=root, schema=schema, rows=total, partitions=len(fragments)
            )
            tx.states.commit(made, self.seq - 1)
        return self.seq

    def fragment(self, found: Rows, schema: Schema, *, writes: bool) -> Fragment:
        hashed = int.from_bytes(sha256(repr((found, schema)).encode()).digest()[:8])
        content = Content(len(found), hashed, hashed)
        id = fragment_id(schema, content)
        if writes:
            table = pa.Table.from_pylist(list(found), schema=arrow_schema(schema))
            pq.write_table(table, self.folder / f"{id.hex()}.parquet")
        file: FileEntry = {
            "path": f"{id.hex()}.parquet",
            "size": 1,
            "rows": len(found),
            "stats": {},
        }
        return Fragment(id, schema, content, (file,), DATASET, "a")

    def diff(self, one: int, other: int, compare: CompareRows, **wish: Any) -> DataDifference:
        points = Generation(one), Generation(other)
        how = data_diff.DiffRequest(**wish)
        return data_diff.of_points(
            self.ctx,
            compare,
            "main",
            dataset=DATASET,
            first_point=points[0],
            other=points[1],
            request=how,
        )

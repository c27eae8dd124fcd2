"""Datasets with real files and statistics, served over HTTP; rows are rendered in this process, so
tests are cheap.

Does not belong here: what is expected of them.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pyarrow.parquet as pq

from controlplane.api.services import Services
from controlplane.client import Headgate
from controlplane.core import tree
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Fragment
from controlplane.core.tree import Entry
from controlplane.lake.lake_objects import LocalObjects
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.ports.records import RequestedChanges, WantedRows
from controlplane.services.queries.adapter.change_renderer import request_of as change_request
from controlplane.services.queries.adapter.record_streams import request_of
from dataplane.contract.identity import Content, fragment_id
from dataplane.contract.schemas import Schema
from dataplane.fragments.arrow import arrow_schema
from dataplane.fragments.file_changes import write as tell
from dataplane.fragments.file_records import write
from dataplane.fragments.statistics import file_entry
from dataplane.storage.lake import open_lake
from tests.store.examples import state
from tests.stores import store_at
from tests.unit.api.world import TellingWake, serving
from tests.unit.lake.tables import struct

ORDERS = "shop.orders"
RECORDS = "/v1/branches/main/datasets/shop.orders/records"
SCHEMA = struct(k="long", name="string", price="decimal(12,2)", day="date", at="timestamp")
NOON = 1_764_072_000.0  # 2025-11-25T12:00:00Z
Row = Mapping[str, Any]


@dataclass
class RecordWorld:
    """`rendered`: what was asked of the data plane; `now`: the store's clock."""

    root: Path
    url: str | None = None
    now: float = NOON
    rendered: list[WantedRows] = field(default_factory=list)
    changed: list[RequestedChanges] = field(default_factory=list)
    made: int = 0

    def __post_init__(self) -> None:
        self.store = store_at(self.url, lambda: self.now)
        self.lake = LocalObjects(self.root / "lake")
        self.ctx = Context(self.store)
        self.seqs: dict[str, int] = {}

    def fragment(self, rows: Sequence[Row], schema: Schema = SCHEMA, files: int = 1) -> Fragment:
        """With real files and the statistics that drivers note."""
        self.made += 1
        content = Content(len(rows), hash(repr(rows)) % 2**64, hash(repr(schema)) % 2**64)
        step = -(-len(rows) // files) or 1
        parts = [rows[i * step : (i + 1) * step] for i in range(files)]
        entries = tuple(
            self._file(f"default/shop/{self.made}-{i}.parquet", schema, p)
            for i, p in enumerate(parts)
        )
        return Fragment(
            fragment_id(schema, content), schema, content, entries, ORDERS, f"a{self.made}"
        )

    def _file(self, path: str, schema: Schema, rows: Sequence[Row]) -> Any:
        target = self.root / "lake" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            pa.Table.from_pylist([dict(row) for row in rows], arrow_schema(schema)), target
        )
        return file_entry(open_lake(self.lake.uri), path, target.stat().st_size, schema)

    def commit(
        self,
        partitions: Mapping[str, Sequence[Row] | Fragment],
        dataset: str = ORDERS,
        schema: Schema = SCHEMA,
        **other: Any,
    ) -> State:
        """A new generation."""
        found = {
            k: p if isinstance(p, Fragment) else self.fragment(p, schema)
            for k, p in partitions.items()
        }
        seq = self.seqs.get(dataset, 0) + 1
        self.seqs[dataset] = seq
        rows = sum(f.content.rows for f in found.values())
        with self.store.begin() as tx:
            tx.traces.put([], list(found.values()))
            root = tree.build(
                tx.nodes, [Entry(k, f.id, f.content) for k, f in sorted(found.items())]
            )
            made = state(
                seq,
                dataset,
                root=root,
                schema=schema,
                at=self.now,
                rows=rows,
                partitions=len(found),
            )
            made = replace(made, **other)
            tx.states.commit(made, seq - 1)
        return made

    def render(self, wanted: WantedRows) -> Iterator[bytes]:
        self.rendered.append(wanted)
        out = io.BytesIO()
        write(open_lake(self.lake.uri), request_of(wanted), out)
        yield out.getvalue()

    def render_changes(self, wanted: RequestedChanges) -> Iterator[bytes]:
        self.changed.append(wanted)
        out = io.BytesIO()
        tell(change_request(self.lake.uri, wanted, scratch=str(self.root), seconds=0), out)
        yield out.getvalue()

    @property
    def opened(self) -> list[str]:
        """Files that the last answer was made of, by their names."""
        return [Path(path).name for path in self.rendered[-1].files]


@dataclass(frozen=True)
class Served:
    """A world behind HTTP."""

    world: RecordWorld
    services: Services
    url: str
    token: str

    @contextmanager
    def http(self, token: str | None = None) -> Iterator[httpx2.Client]:
        headers = {"Authorization": f"Bearer {token or self.token}", "Accept-Encoding": "identity"}
        with httpx2.Client(base_url=self.url, headers=headers, trust_env=False, timeout=30) as http:
            yield http

    def client(self) -> Headgate:
        return Headgate(self.url, self.token)


@contextmanager
def served(world: RecordWorld, **other: Any) -> Iterator[Served]:
    settings: dict[str, Any] = {
        "stopping": threading.Event(),
        "s3_secret": b"of the installation",
        **other,
    }
    settings.setdefault("render_changes", world.render_changes)
    render = settings.pop("render", world.render)
    services = Services(world.store, world.lake, TellingWake(), render, lambda *_: "", **settings)
    admin, _ = tokens.create(world.ctx, "test", ("admin",))
    with serving(services) as url:
        yield Served(world, services, url, admin)
    world.store.close()

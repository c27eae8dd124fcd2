"""What a query takes over HTTP, from a warm process, over the flights of 2013 (336,776 rows in 12
partitions).

    python -m benchmarks.queries [duckdb | spark]

Each round is another query, so that no result is there already; `again` are results that are. Does
not belong here: the start of the process, which the first line tells.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from controlplane.api.services import Services
from controlplane.client import Headgate
from controlplane.core import tree
from controlplane.core.model.tasks import Fragment
from controlplane.demo.data import lay_out
from controlplane.lake.lake_objects import open_lake
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.ports.store import Store
from controlplane.services.queries.adapter.query_pool import QueryPool
from controlplane.services.queries.adapter.result_folder import ResultFolder
from controlplane.services.queries.adapter.spark import SparkPool
from controlplane.services.queries.queries import EngineName, Queries
from dataplane.contract.identity import Content, fragment_id
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import field_of, struct_of
from tests.store.examples import state, trace
from tests.stores import new_store
from tests.unit.api.world import TellingWake, render, serving

ROUNDS = 30
MILLION = {
    "duckdb": "SELECT range, hash(range) FROM range(1000000)",
    "spark": "SELECT id, xxhash64(id) FROM range(1000000)",
}
TYPES = {
    "int64": "long",
    "string": "string",
    "timestamp[us, tz=UTC]": "timestamp",
    "timestamp[us]": "timestamp_ntz",
}
QUERIES = {
    "group": "SELECT carrier, count(*), avg(arr_delay) + {n} FROM nyc.flights GROUP BY carrier",
    "join": "SELECT a.carrier, count(*) + {n} FROM nyc.flights a JOIN nyc.flights b USING (tailnum, time_hour)"
    " WHERE a.month = 1 AND b.month = 1 GROUP BY 1",
    "filter": "SELECT * FROM nyc.flights WHERE dep_delay > 120 + {n} ORDER BY time_hour LIMIT 100",
}


def month(file: Path) -> pa.Table:
    """Its flights, with the types of Spark's."""
    options = csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    read = csv.read_csv(file, convert_options=options)
    return pa.table([_plain(column) for column in read.columns], names=read.column_names)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz))
    return column.cast(pa.string()) if str(column.type) not in TYPES else column


def committed(store: Store, folder: Path) -> None:
    """The flights as one dataset, a partition for each month."""
    lay_out(folder)
    parts = [month(file) for file in sorted((folder / "flights").iterdir())]
    schema = struct_of(field_of(f.name, TYPES[str(f.type)]) for f in parts[0].schema)
    entries, fragments = list[tree.Entry](), list[Fragment]()
    for number, part in enumerate(parts, 1):
        content = Content(part.num_rows, number, number)
        id, path = fragment_id(schema, content), f"{number:02}.parquet"
        pq.write_table(part, folder / path, compression="snappy")
        file: FileEntry = {"path": path, "size": 1, "rows": part.num_rows, "stats": {}}
        fragments.append(Fragment(id, schema, content, (file,), home="nyc.flights", attempt="a"))
        entries.append(tree.Entry(f"{number:02}", id, content))
    with store.begin() as tx:
        tx.traces.put([trace(1)], fragments)
        root, rows = tree.build(tx.nodes, entries), sum(part.num_rows for part in parts)
        tx.states.commit(
            state(1, "nyc.flights", root=root, schema=schema, rows=rows, partitions=len(parts)), 0
        )


@contextmanager
def served() -> Iterator[Headgate]:
    with TemporaryDirectory() as name:
        folder, store = Path(name), new_store()
        committed(store, folder)
        pool = QueryPool(name)
        spark = SparkPool(name, pool)
        services = Services(
            store,
            open_lake(name),
            TellingWake(),
            render,
            lambda *_: "",
            stopping=threading.Event(),
            queries=Queries(pool, ResultFolder(folder / "results"), spark=spark),
        )
        token, _ = tokens.create(Context(store), "benchmark", ("admin",))
        with serving(services) as url, Headgate(url, token) as client:
            yield client
        spark.close()
        pool.close()


def took_ms(client: Headgate, sql: str, engine: EngineName) -> float:
    began = time.perf_counter()
    client.query(sql, engine=engine)
    return (time.perf_counter() - began) * 1000


def main() -> None:
    engine: EngineName = "spark" if "spark" in sys.argv else "duckdb"
    with served() as client:
        print(f"first, with the start of a process: {took_ms(client, 'SELECT 1', engine):.0f} ms")
        for name, sql in QUERIES.items():
            took_ms(client, sql.format(n=-1), engine)
            times = [took_ms(client, sql.format(n=n), engine) for n in range(ROUNDS)]
            again = [took_ms(client, sql.format(n=0), engine) for _ in range(ROUNDS)]
            slow = sorted(times)[int(ROUNDS * 0.9)]
            print(
                f"{name}: median {median(times):.0f} ms, p90 {slow:.0f} ms; again {median(again):.0f} ms"
            )
        began = time.perf_counter()
        size = sum(map(len, client.query_arrow(MILLION[engine], engine=engine)))
        print(f"1,000,000 rows as Arrow, {size >> 20} MB: {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()

"""TPC-H by month: the data as its generator draws it, kept for the user, and what its 22 queries
say by DuckDB.

Independent of the code under test. Does not belong here: the queries' texts (unit/sql/tpch.yaml),
what is computed how often.
"""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from controlplane.demo.download import cache_folder
from tests.unit.sql.piecewise import tree_of
from tests.unit.sql.queries import TPCH

TABLES = ("region", "nation", "supplier", "part", "partsupp", "customer", "orders", "lineitem")
# These have a file for each month, all others one
MONTH_OF = {"orders": "o_orderdate", "lineitem": "l_shipdate"}
CORRECTED = {
    "orders": ("o_totalprice", "o_orderkey"),
    "lineitem": ("l_extendedprice", "l_orderkey"),
}

Row = tuple[Any, ...]


def queries(scale: float) -> dict[str, str]:
    """The 22 by name. One has a parameter that depends on the scale."""
    return {
        q["name"].lower(): q["sql"].replace("* 0.0001", f"* {0.0001 / scale:.7f}") for q in TPCH
    }


def components(scale: float) -> dict[str, Any]:
    """Of a blueprint beside `data`: the tables, and the queries over them."""
    files = {"connector": "files", "format": "parquet"}
    reads = {table: {"read": {**files, "path": f"data/{table}/*.parquet"}} for table in TABLES}
    return reads | {name: {"transform": {"sql": text}} for name, text in queries(scale).items()}


def data(scale: float) -> Path:
    """A folder with a folder of Parquet files for each table, made if it is not in the cache. Not
    to be written to."""
    folder = cache_folder() / f"tpch-{version('tpchgen-cli')}-{scale:g}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent, prefix="tpch-") as scratch:
            _lay_out(_drawn(Path(scratch) / "drawn", scale), made := Path(scratch) / "made")
            _keep(made, folder)
    return folder


def _keep(made: Path, folder: Path) -> None:
    try:
        made.rename(folder)
    except OSError:  # another process was faster, with the same data
        if not folder.exists():
            raise


def _drawn(folder: Path, scale: float) -> Path:
    command = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    subprocess.run(
        [command, "parquet", "-s", str(scale), "-o", folder], check=True, capture_output=True
    )
    return folder


def _lay_out(drawn: Path, folder: Path) -> None:
    spill = drawn / "spill"  # else the current folder has it
    with duckdb.connect(config={"temp_directory": str(spill)}) as database:
        for table in TABLES:
            (folder / table).mkdir(parents=True)
            rows = f"FROM '{drawn}/{table}.parquet'"
            if table in MONTH_OF:
                _split(database, table, rows, folder / table)
            else:
                database.execute(f"COPY ({rows}) TO '{folder}/{table}/all.parquet'")


def _split(database: duckdb.DuckDBPyConnection, table: str, rows: str, folder: Path) -> None:
    month = f"strftime({MONTH_OF[table]}, '%Y-%m')"
    database.execute(f"CREATE TABLE {table} AS {rows} ORDER BY {MONTH_OF[table]}")
    for (name,) in database.execute(f"SELECT DISTINCT {month} FROM {table} ORDER BY 1").fetchall():
        database.execute(
            f"COPY (FROM {table} WHERE {month} = '{name}') TO '{folder}/{name}.parquet'"
        )
    database.execute(f"DROP TABLE {table}")


def correct(file: Path) -> None:
    """The file's month as if it had been delivered anew: some rows gone, others worth more."""
    amount, key = CORRECTED[file.parent.name]
    more = f"CAST({amount} + 7 AS DECIMAL(15,2)) AS {amount}"
    fresh = file.with_suffix(".new")
    with duckdb.connect() as database:
        rows = f"SELECT * REPLACE ({more}) FROM '{file}' WHERE {key} % 7 <> 3"
        database.execute(f"COPY ({rows}) TO '{fresh}' (FORMAT parquet)")
    fresh.replace(file)


class Answers:
    """What DuckDB says over the files that lie in a folder now."""

    def __init__(self, folder: Path) -> None:
        self._database = duckdb.connect()
        for table in TABLES:
            self._database.execute(
                f"CREATE VIEW {table} AS FROM read_parquet('{folder}/{table}/*.parquet')"
            )

    def view(self, name: str, text: str) -> None:
        """A query that others can read from."""
        self._database.execute(f"CREATE VIEW {name} AS {tree_of(text).sql('duckdb')}")

    def rows(self, text: str) -> list[Row]:
        """Of a query for Spark."""
        return self._database.execute(tree_of(text).sql("duckdb")).fetchall()

    def close(self) -> None:
        self._database.close()


def assert_same(name: str, found: Sequence[Mapping[str, Any]], wanted: Sequence[Row]) -> None:
    """The same rows in any order. Decimals count exactly, but as far as they go where DuckDB has
    doubles."""
    ours = sorted((tuple(row.values()) for row in found), key=_exact)
    theirs = sorted(wanted, key=_exact)
    assert len(ours) == len(theirs), f"{name} has {len(ours)} rows and not {len(theirs)}"
    for one, other in zip(ours, theirs, strict=True):
        is_same = len(one) == len(other) and all(map(_is_same, one, other))
        assert is_same, f"{name} has {one} and not {other}"


def _exact(row: Row) -> tuple[list[str], list[float]]:
    """An order for rows in which what may differ in the last digit comes last."""
    texts = [f"{v!r}" for v in row if not isinstance(v, int | float | Decimal)]
    return texts, [round(float(v), 3) for v in row if isinstance(v, int | float | Decimal)]


def _is_same(found: Any, wanted: Any) -> bool:
    match found, wanted:
        case Decimal(), float():
            return abs(float(found) - wanted) <= max(
                10.0 ** int(found.as_tuple().exponent), 1e-9 * abs(wanted)
            )
        case float(), float() | Decimal() | int():
            return abs(found - float(wanted)) <= 1e-9 * max(abs(found), abs(float(wanted)))
        case _:
            return bool(found == wanted)

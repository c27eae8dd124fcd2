"""What column lineage of a query costs: processor time of sqlglot, for the queries of TPC-H and of
the flights example.

    python -m benchmarks.lineage

Does not belong here: lineage by Spark's plan, which an analysis tells beside its columns.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from statistics import mean

import yaml

from controlplane.core import sql
from controlplane.demo import blueprint_folder
from tests.unit.sql.queries import TPCH
from tests.unit.sql.tpch import tpch_tables

Columns = Mapping[str, Mapping[str, str]]
ROUNDS = 5


def tpch() -> dict[str, tuple[sql.AnalysedQuery, Columns]]:
    tables = {
        name: {column: kind.replace("VARCHAR", "STRING") for column, kind in table.columns.items()}
        for name, table in tpch_tables(1).items()
    }
    return {entry["name"]: _with_columns(entry["sql"], tables) for entry in TPCH}


def flights() -> dict[str, tuple[sql.AnalysedQuery, Columns]]:
    """In order of the blueprint's graph, so that the columns of inputs are known."""
    parts = yaml.safe_load(Path(blueprint_folder(), "flights.yaml").read_text())["components"]
    known: dict[str, Mapping[str, str]] = {"airlines": {"carrier": "STRING", "name": "STRING"}}
    for name, part in parts.items():
        if "schema" in part.get("read", {}):
            known[name] = dict(column.split() for column in part["read"]["schema"].split(", "))
    left = {
        name: part["transform"]["sql"]
        for name, part in parts.items()
        if "sql" in part.get("transform", {})
    }
    found: dict[str, tuple[sql.AnalysedQuery, Columns]] = {}
    while ready := [
        n
        for n, text in left.items()
        if {r.name for r in sql.analyse(text).references} <= known.keys()
    ]:
        for name in ready:
            found[name] = _with_columns(left.pop(name), known)
            types = found[name][0].output_types(found[name][1])
            known[name] = dict(types or ())
    return found


def _with_columns(text: str, known: Columns) -> tuple[sql.AnalysedQuery, Columns]:
    query = sql.analyse(text)
    return query, {ref.name: known[ref.name] for ref in query.references}


def seconds(query: sql.AnalysedQuery, columns: Columns) -> float:
    began = time.process_time()
    assert query.lineage(columns) is not None
    return time.process_time() - began


def main() -> None:
    queries = {**tpch(), **flights()}
    for query, columns in queries.values():  # once for modules and caches
        query.lineage(columns)
    took = {name: mean(seconds(*one) for _ in range(ROUNDS)) for name, one in queries.items()}
    slowest = max(took, key=lambda name: took[name])
    print(
        f"{len(took)} queries, {mean(took.values()) * 1000:.1f} ms a query, {slowest} {took[slowest] * 1000:.1f} ms"
    )


if __name__ == "__main__":
    main()

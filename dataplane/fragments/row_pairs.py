"""Rows of two sides in pairs: by a key, else by the columns that did not change.

Without a key, the values say which columns differ: a column is
unchanged if the side with fewer unequal rows has no value of it that the other side lacks, counted
as often as it is there. Rows that agree in all unchanged columns, and are the only such ones of
their side, are a pair. For example, where only `late` was computed in another way, all other
columns identify a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dataplane.contract.schemas import Json
from dataplane.fragments.rows_of_sides import DistinctRows

# Values of unequal rows: of more, the columns are not searched for unchanged ones, since each column
# is grouped by itself
MOST_VALUES: Final = 5_000_000
# Of a column in the rows that are unequal: how many values both sides have
_SHARED: Final = """
    SELECT sum(least(before, after)) FROM (
        SELECT sum(greatest(b - a, 0)) AS before, sum(greatest(a - b, 0)) AS after
        FROM g GROUP BY {column})
"""


def compare_pairs(rows: DistinctRows) -> Json | None:
    """The pairs, counted. None where there is no key and no columns that can stand in for it, or too
    many values to search."""
    if rows.request["key"]:
        return KeyedRows(rows, rows.request["key"]).compared()
    unchanged = unchanged_columns(rows)
    if not unchanged:
        return None
    compared = KeyedRows(rows, unchanged).compared()
    return compared if compared["changed"] else None


def unchanged_columns(rows: DistinctRows) -> list[str]:
    """Names of columns; empty where none changed, all did, or values are too many."""
    (distinct_rows,) = rows.sums("SELECT count(*) FROM g")
    if distinct_rows * len(rows.names) > MOST_VALUES:
        return []
    counts = rows.counts()
    fewer = min(counts["added"], counts["removed"])
    names = [
        name
        for name, column in zip(rows.names, rows.columns, strict=True)
        if rows.sums(_SHARED.format(column=column)) == [fewer]
    ]
    return names if fewer and len(names) < len(rows.names) else []


class KeyedRows:
    """Rows that a key identifies: in table `k` each key, and how many rows of each side have it.

    A key that a side has more than once is ambiguous. Its rows are counted by `DistinctRows` alone.
    """

    def __init__(self, rows: DistinctRows, key: Sequence[str]) -> None:
        self.rows, self.names = rows, list(key)
        self.keys = rows.numbered(key)
        self.values = [c for c in rows.columns if c not in self.keys]

    def compared(self) -> Json:
        rows = self.rows
        keys = ", ".join(self.keys)
        rows.database.execute(
            f"CREATE TEMP TABLE k AS SELECT {keys}, sum(b) AS b, sum(a) AS a FROM g GROUP BY {keys}"
        )
        ambiguous, added, removed, matched = rows.sums(
            "SELECT count(*) FILTER (b > 1 OR a > 1), count(*) FILTER (b = 0 AND a = 1),"
            " count(*) FILTER (b = 1 AND a = 0), count(*) FILTER (b = 1 AND a = 1) FROM k"
        )
        self._pair()
        changed, *numbers = rows.sums(
            f"SELECT count(*){''.join(map(self._differing, self.values))} FROM p"
        )
        names = [rows.names[rows.columns.index(c)] for c in self.values]
        columns = {name: n for name, n in zip(names, numbers, strict=True) if n}
        counts = {
            "matched": matched,
            "changed": changed,
            "added": added,
            "removed": removed,
            "ambiguous": ambiguous,
        }
        return {
            "key": self.names,
            "is_inferred": self.names != rows.request["key"],
            "equal_columns": len(rows.names) - len(columns),
            **counts,
            "columns": columns,
            "samples": list(self._samples()),
            "unpaired": self._unpaired(),
        }

    def _pair(self) -> None:
        """Rows that have the same key, and differ: columns of before are `xc0`, `xc1`, ..., of
        after `yc0`, ..."""
        before = ", ".join(f"x.{c} AS x{c}" for c in self.rows.columns)
        after = ", ".join(f"y.{c} AS y{c}" for c in self.rows.columns)
        same = " AND ".join(f"x.{c} IS NOT DISTINCT FROM y.{c}" for c in self.keys)
        same_keys = " AND ".join(f"x.{c} IS NOT DISTINCT FROM k.{c}" for c in self.keys)
        self.rows.database.execute(
            f"CREATE TEMP TABLE p AS SELECT {before}, {after} FROM (SELECT * FROM g WHERE b = 1 AND a = 0) x"
            f" JOIN (SELECT * FROM g WHERE b = 0 AND a = 1) y ON {same}"
            f" SEMI JOIN (SELECT * FROM k WHERE b = 1 AND a = 1) k ON {same_keys}"
        )

    def _differing(self, column: str) -> str:
        return f", count(*) FILTER (x{column} IS DISTINCT FROM y{column})"

    def _samples(self) -> Iterator[Json]:
        """The first pairs in order of their keys: the key, and what differs, before and after."""
        rows = self.rows
        order = ", ".join(f"x{c}" for c in self.keys)
        differs = ", ".join(f"x{c} IS DISTINCT FROM y{c}" for c in rows.columns)
        query = (
            f"SELECT *, {differs} FROM p {self._chosen()} ORDER BY {order}"
            f" LIMIT {rows.request['samples']}"
        )
        table = rows.database.execute(query).to_arrow_table()
        flags = (
            table.column(2 * len(rows.columns) + i).to_pylist() for i in range(len(rows.columns))
        )
        before, after = rows.plain(table), rows.plain(table, len(rows.columns))
        for old, new, *differing in zip(before, after, *flags, strict=True):
            names = [name for name, is_other in zip(rows.names, differing, strict=True) if is_other]
            key = {name: old[name] for name in self.names}
            yield {
                "key": key,
                "row": new,
                "before": {n: old[n] for n in names},
                "after": {n: new[n] for n in names},
            }

    def _chosen(self) -> str:
        """The condition of pairs that differ in the requested column."""
        name = self.rows.request["column"]
        if name not in self.rows.names:
            return ""
        (column,) = self.rows.numbered([name])
        return f"WHERE x{column} IS DISTINCT FROM y{column}"

    def _unpaired(self) -> Json:
        """The first rows of each side that are in no pair."""
        return {"added": self._alone("a - b", "y"), "removed": self._alone("b - a", "x")}

    def _alone(self, count: str, side: str) -> list[Json]:
        same = " AND ".join(f"p.{side}{c} IS NOT DISTINCT FROM g.{c}" for c in self.rows.columns)
        return self.rows.samples_of(f"(SELECT * FROM g ANTI JOIN p ON {same})", count)

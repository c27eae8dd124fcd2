"""More of what users write than the model's own components: windows, and functions in PySpark.

Does not belong here: chance (changes), whoever runs them (engine; on real Spark, spark/oracle).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tests.property.model import KEY, Fragment, Further, Value


@dataclass(frozen=True, slots=True)
class Ranked(Further):
    """Each row with a sum and its rank among the rows that have its value in `over`: k or v, one of
    the two."""

    source: str
    over: str = KEY
    keyed: bool = False

    @property
    def modes(self) -> dict[str, str]:
        return {self.source: "by" if self.keyed and self.over == KEY else "all"}

    @property
    def sql(self) -> str:
        window = f"PARTITION BY {self.over}"
        items = f"k, v, sum({self._other}) OVER ({window}) AS w, rank() OVER ({window} ORDER BY {self._other}) AS n"
        return f"SELECT {items} FROM {self.source}"

    @property
    def _other(self) -> str:
        return "v" if self.over == KEY else KEY

    def edited(self, number: int) -> Ranked:
        if number % 2:
            return replace(self, keyed=not self.keyed)
        return replace(self, over=self._other)

    def run(self, inputs: Mapping[str, Fragment]) -> Fragment:
        groups: dict[Value, list[Value]] = {}
        rows = list(inputs[self.source].under((self.over, self._other)))
        for key, value in rows:
            groups.setdefault(key, []).append(value)
        found = [
            (key, value, _sum(groups[key]), 1 + _before(groups[key], value)) for key, value in rows
        ]
        placed = ((k, v, w, n) if self.over == KEY else (v, k, w, n) for k, v, w, n in found)
        return Fragment(("k", "v", "w", "n"), tuple(placed))


def _sum(values: list[Value]) -> int | None:
    numbers = [v for v in values if isinstance(v, int)]
    return sum(numbers) if numbers else None


def _before(values: list[Value], value: Value) -> int:
    """How many come before it, NULL first."""
    if not isinstance(value, int):
        return 0
    return sum(not isinstance(v, int) or v < value for v in values)


EACH = """\
from pyspark.sql import functions as F

def transform({name}):
    kept = {name}.where(F.col("v") > {number})
    return kept.select("k", (F.col("v") * 2).alias("v"))
"""
CALLS = """\
from pyspark.sql import functions as F

def double(value):
    return None if value is None else value * 2

def transform({name}):
    kept = {name}.where(F.col("v") > {number})
    return kept.select("k", F.udf(double, "bigint")("v").alias("v"))
"""
GROUPS = """\
from pyspark.sql import functions as F

def transform({name}):
    kept = {name}.where(F.col("v") > {number})
    return kept.groupBy("k").agg(F.max("v").alias("v"), F.count("*").alias("n"))
"""
Way = Literal["each", "calls", "all", "by"]


@dataclass(frozen=True, slots=True)
class Script(Further):
    """Rows with more than `number` in v: doubled one by one, or grouped by k, over everything or
    for each k."""

    source: str  # of the same dataflow
    way: Way
    number: int = 0

    @property
    def keyed(self) -> bool:  # type: ignore[override]  # it follows from the way
        return self.way == "by"

    @property
    def modes(self) -> dict[str, str]:
        return {self.source: "each" if self._is_row_wise else self.way}

    @property
    def _is_row_wise(self) -> bool:
        return self.way in ("each", "calls")

    @property
    def sql(self) -> str:
        text = {"each": EACH, "calls": CALLS}.get(self.way, GROUPS)
        return text.format(name=self.source, number=self.number)

    @property
    def plain(self) -> str:
        """The same as a query."""
        rows = f"FROM {self.source} WHERE v > {self.number}"
        if self._is_row_wise:
            return f"SELECT k, v * 2 AS v {rows}"
        return f"SELECT k, max(v) AS v, count(*) AS n {rows} GROUP BY k"

    def restyled(self, style: int) -> str:
        """The same code with other comments, docstrings and white space."""
        match style:
            case 1:
                return f"# a comment\n{self.sql}# the end\n"
            case 2:
                return f'"""What it is for."""\n{self.sql}'.replace(
                    "\n    return", "\n\n    # at last\n    return"
                )
            case 3:
                return self.sql.replace(", ", ",   ")
            case _:
                return self.sql

    def edited(self, number: int) -> Script:
        return replace(self, number=number)

    def run(self, inputs: Mapping[str, Fragment]) -> Fragment:
        rows = [
            (k, v)
            for k, v in inputs[self.source].under(("k", "v"))
            if isinstance(v, int) and v > self.number
        ]
        if self._is_row_wise:
            return Fragment(("k", "v"), tuple((k, v * 2) for k, v in rows))
        groups: dict[Value, list[int]] = {}
        for k, v in rows:
            groups.setdefault(k, []).append(v)
        return Fragment(("k", "v", "n"), tuple((k, max(vs), len(vs)) for k, vs in groups.items()))

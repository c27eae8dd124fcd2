"""Random queries over the tables of piecewise.py: mostly valid, of every shape that a proof has a
rule for or against.

Does not belong here: what is expected of them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

COLUMNS = {"f": ("k", "d", "x", "v", "s"), "g": ("k", "d", "y", "w"), "h": ("k", "z", "name")}
NUMBERS = {"f": ("k", "x", "v"), "g": ("k", "y", "w"), "h": ("k", "z"), "q": ("k", "n")}
AGGREGATES = (
    "sum({})",
    "count({})",
    "count(*)",
    "min({})",
    "max({})",
    "avg({})",
    "count(DISTINCT {})",
    "stddev({})",
)
WINDOWS = (
    "sum({0}) OVER (PARTITION BY {1})",
    "count(*) OVER (PARTITION BY {1}, {2})",
    "max({0}) OVER ()",
)
JOINS = (*("", "", "LEFT", "LEFT"), *("RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"))


@dataclass(frozen=True)
class Chosen:
    text: str
    partition_by: str  # a column of the output, or nothing


class Writer:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def query(self) -> Chosen:
        roll = self.chance.random()
        if roll < 0.15:
            text = f"{self.scope(0)} UNION ALL {self.scope(0)}"
        elif roll < 0.3:
            text = f"WITH q AS ({self.scope(1)}) {self.scope(0, ('q', 'q', 'f', 'g'))}"
        else:
            text = self.scope(0)
        return Chosen(text, self.chance.choice(("k", "k", "n", "", "")))

    def scope(self, depth: int, tables: tuple[str, ...] = ("f", "f", "g", "g", "h")) -> str:
        """Two columns: k, and a number n."""
        aliases = "abc"[: self.chance.choice((1, 1, 2, 2, 3))]
        sources = [(alias, self.chance.choice(tables)) for alias in aliases]
        text = self.source(*sources[0], depth)
        for at in range(1, len(sources)):
            text += self.join(sources[: at + 1], depth)
        keep = [
            (a, t)
            for a, t in sources
            if not any(f"{kind} JOIN {t} {a} " in text for kind in ("SEMI", "ANTI"))
        ]
        where = f" WHERE {self.condition(keep)}" if self.chance.random() < 0.4 else ""
        return self.select(keep, f" FROM {text}{where}")

    def source(self, alias: str, table: str, depth: int) -> str:
        if table != "q" and depth < 1 and self.chance.random() < 0.2:
            return (
                f"({self.scope(depth + 1, ('f', 'g', 'h'))}) {alias}"
                if alias != "a"
                else f"{table} {alias}"
            )
        return f"{table} {alias}"

    def join(self, sources: list[tuple[str, str]], depth: int) -> str:
        alias, table = sources[-1]
        kind = self.chance.choice(JOINS)
        other = self.chance.choice(sources[:-1])
        on = f"{other[0]}.k = {alias}.{'k' if self.chance.random() < 0.7 else self.number(table)}"
        if self.chance.random() < 0.2:
            on += f" AND {other[0]}.k < 4"
        return f" {kind} JOIN {table} {alias} ON {on}"

    def number(self, table: str) -> str:
        return self.chance.choice(NUMBERS[table])

    def condition(self, sources: list[tuple[str, str]]) -> str:
        alias, table = self.chance.choice(sources)
        other = self.chance.choice(sources)
        match self.chance.randint(0, 5):
            case 0:
                return f"{alias}.{self.number(table)} > 2"
            case 1:
                return f"{alias}.k = {other[0]}.{self.number(other[1])}"
            case 2:
                inner = self.chance.choice(("f", "g", "h"))
                return f"{alias}.k IN (SELECT i.k FROM {inner} i)"
            case 3:
                inner = self.chance.choice(("f", "g", "h"))
                return f"EXISTS (SELECT 1 FROM {inner} i WHERE i.k = {alias}.k)"
            case 4:
                return f"{alias}.{self.number(table)} < (SELECT avg(i.k) FROM {self.chance.choice(('f', 'g'))} i)"
            case _:
                return f"{alias}.k IS NOT NULL"

    def key(self, sources: list[tuple[str, str]]) -> str:
        a, b = self.chance.choice(sources), self.chance.choice(sources)
        one = f"{a[0]}.{self.chance.choice(('k', 'k', 'k', self.number(a[1])))}"
        return f"coalesce({one}, {b[0]}.k)" if self.chance.random() < 0.25 and a != b else one

    def value(self, sources: list[tuple[str, str]]) -> str:
        alias, table = self.chance.choice(sources)
        return f"{alias}.{self.number(table)}"

    def select(self, sources: list[tuple[str, str]], rest: str) -> str:
        key, value = self.key(sources), self.value(sources)
        match self.chance.randint(0, 5):
            case 0 | 1:
                return f"SELECT {key} AS k, {value} AS n{rest}"
            case 2:
                return f"SELECT DISTINCT {key} AS k, {value} AS n{rest}"
            case 3:
                by = self.chance.choice((key, self.value(sources)))
                window = self.chance.choice(WINDOWS).format(value, by, self.value(sources))
                return f"SELECT {key} AS k, {window} AS n{rest}"
            case _:
                aggregate = self.chance.choice(AGGREGATES).format(value)
                group = self.chance.choice(
                    (key, key, key, f"{key}, {self.value(sources)}", f"ROLLUP ({key})")
                )
                having = " HAVING count(*) > 1" if self.chance.random() < 0.2 else ""
                return f"SELECT {key} AS k, {aggregate} AS n{rest} GROUP BY {group}{having}"

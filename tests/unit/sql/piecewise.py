"""What a verdict claims, carried out by DuckDB on small random tables: pieces on one side, the
whole on the other.

It cuts and merges in its own way, from the query's tree, and asks the product only for the verdict.
Does not belong here: which verdict a query should have.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from controlplane.core.sql import InputKey, PartsMerge, Verdict

PARTS = 3


@dataclass(frozen=True)
class Table:
    columns: Mapping[str, str]  # name -> DuckDB's type
    rows: Sequence[tuple]


def small_tables(seed: int) -> dict[str, Table]:
    """Few values, many NULLs, keys that one table has and the other has not."""
    chance = random.Random(seed)

    def some(values: Sequence[Any], nulls: float = 0.15) -> Any:
        return None if chance.random() < nulls else chance.choice(values)

    days = [date(2020, 1, 1) + timedelta(days=n) for n in range(0, 90, 9)]
    money = [Decimal(n) / 4 for n in range(-8, 40)]
    f = [
        (
            some(range(5)),
            some(days),
            some(range(6)),
            some(money),
            some("abc"),
            [*range(chance.randint(0, 3))],
        )
        for _ in range(40)
    ]
    g = [(some(range(2, 8)), some(days), some(range(6)), some(range(8))) for _ in range(25)]
    h = [(some(range(7)), some(range(4)), some(["one", "two", "three"])) for _ in range(8)]
    return {
        "f": Table(
            {
                "k": "INT",
                "d": "DATE",
                "x": "INT",
                "v": "DECIMAL(10,2)",
                "s": "VARCHAR",
                "tags": "INT[]",
            },
            f,
        ),
        "g": Table({"k": "INT", "d": "DATE", "y": "INT", "w": "INT"}, g),
        "h": Table({"k": "INT", "z": "INT", "name": "VARCHAR"}, h),
        "e": Table({"k": "INT", "x": "INT"}, []),
    }


Rows = Counter[tuple[str, ...]]


class Database:
    """Tables that can be cut to some of their rows, and queries of Spark over them."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables
        # On several threads, DuckDB's window operator failed of itself once ("index 0 within vector
        # of size 0").
        self._connection = duckdb.connect(config={"threads": 1})
        for name, table in tables.items():
            columns = ", ".join(f"{c} {kind}" for c, kind in table.columns.items())
            self._connection.execute(f"CREATE TABLE _{name} ({columns}, _row INT)")
            self._insert(f"_{name}", [(*row, at) for at, row in enumerate(table.rows)])
            self.cut(name, "true")

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        return {name: tuple(table.columns) for name, table in self._tables.items()}

    def close(self) -> None:
        self._connection.close()

    def cut(self, name: str, condition: str) -> None:
        """From now on the table has only the rows for which this holds."""
        self._connection.execute(
            f"CREATE OR REPLACE VIEW {name} AS SELECT * EXCLUDE (_row) FROM _{name} WHERE {condition}"
        )

    def restore(self, names: Iterable[str]) -> None:
        for name in names:
            self.cut(name, "true")

    def run(self, tree: exp.Expr) -> list[tuple]:
        return self._connection.execute(tree.sql("duckdb")).fetchall()

    def names(self, tree: exp.Expr) -> list[str]:
        return [d[0].lower() for d in self._connection.execute(tree.sql("duckdb")).description]

    def values(self, name: str, expression: str) -> list[Any]:
        """What an expression of Spark is in the rows of a table."""
        value = sqlglot.parse_one(expression, read="spark").sql("duckdb")
        return [
            v
            for (v,) in self._connection.execute(
                f"SELECT {value} FROM _{name} ORDER BY _row"
            ).fetchall()
        ]

    def put(self, name: str, batches: Iterable[list[tuple]], like: exp.Expr) -> None:
        """A table of rows that queries gave, `like` one of these queries."""
        self._connection.execute(
            f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM ({like.sql('duckdb')}) LIMIT 0"
        )
        self._insert(name, [row for rows in batches for row in rows])

    def _insert(self, name: str, rows: Sequence[tuple]) -> None:
        """In one statement: they are slow one by one."""
        if rows:
            marks = f"({', '.join('?' * len(rows[0]))})"
            values = [value for row in rows for value in row]
            self._connection.execute(
                f"INSERT INTO {name} VALUES {', '.join([marks] * len(rows))}", values
            )


SYNONYMS: Mapping[str, type[exp.Func]] = {
    "every": exp.LogicalAnd,
    "some": exp.LogicalOr,
    "mean": exp.Avg,
}


def tree_of(text: str) -> exp.Expr:
    """With functions of Spark that DuckDB has under other names."""
    tree = sqlglot.parse_one(text, read="spark")
    for node in list(tree.find_all(exp.Anonymous)):
        if kind := SYNONYMS.get(node.name.lower()):
            known = kind(this=node.expressions[0])
            known.meta.update(node.meta)
            node.replace(known)
    return tree


def counted(rows: Iterable[tuple]) -> Rows:
    """A multiset of rows. Numbers are compared by nine digits: sums of doubles depend on the
    order."""
    return Counter(tuple(map(_told, row)) for row in rows)


def _told(value: Any) -> str:
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return f"{float(value):.9g}" if is_number else repr(value)


def assert_piecewise(database: Database, text: str, verdicts: Mapping[str, Verdict]) -> None:
    """Whatever is claimed of a query comes to the same as the query."""
    whole = counted(database.run(tree_of(text)))
    if each := [n for n, v in verdicts.items() if v.mode == "each"]:
        assert by_partition(database, tree_of(text), each) == whole
    if by := {n: v.keys for n, v in verdicts.items() if v.mode == "by"}:
        assert by_key(database, tree_of(text), by) == whole
    for name, verdict in verdicts.items():
        if verdict.merge is not None:
            assert merged(database, text, name, verdict.merge) == whole, name


# --- each ------------------------------------------------------------------------------------------


def by_partition(database: Database, tree: exp.Expr, each: Sequence[str]) -> Rows:
    """Rows are dealt to partitions; each input lacks one of them."""
    found: list[tuple] = []
    for part in range(PARTS + len(each)):
        for at, name in enumerate(each):  # input 0 has no last partition, input 1 no first one
            database.cut(name, f"(_row * 7 + {at}) % {PARTS} = {part - at}")
        found += database.run(tree)
    database.restore(each)
    return counted(found)


# --- by --------------------------------------------------------------------------------------------


def by_key(database: Database, tree: exp.Expr, keys: Mapping[str, Sequence[InputKey]]) -> Rows:
    """The query once for each key, over the rows that have it; its output must have the key as
    well."""
    held = {name: _keys_of_rows(database, name, parts) for name, parts in keys.items()}
    parts = next(iter(keys.values()))
    names = database.names(tree)
    places = [names.index(k.part.name.lower()) for k in parts]
    found: list[tuple] = []
    for key in {key for rows in held.values() for key in rows}:
        for name, rows in held.items():
            chosen = [at for at, one in enumerate(rows) if one == key]
            database.cut(name, f"_row IN ({', '.join(map(str, chosen))})" if chosen else "false")
        rows_of_key = database.run(tree)
        for row in rows_of_key:
            own = tuple(granule(row[p], k.part.granule) for p, k in zip(places, parts, strict=True))
            assert own == key, f"a row of key {own} came out of the rows of key {key}"
        found += rows_of_key
    database.restore(keys)
    return counted(found)


def _keys_of_rows(database: Database, name: str, parts: Sequence[InputKey]) -> list[tuple]:
    columns = [
        [granule(v, k.part.granule) for v in database.values(name, k.expression)] for k in parts
    ]
    return list(zip(*columns, strict=True))


def granule(value: Any, name: str) -> Any:
    match name, value:
        case "month", date():
            return value.replace(day=1)
        case _:
            return value


# --- partial results and their merge -----------------------------------------------------------------


def merged(database: Database, text: str, name: str, merge: PartsMerge) -> Rows:
    """Partial groups of each part of one input, and the query over what they come to together."""
    without, plain = _of_parts(database, text, name, merge, 0), database.run(tree_of(text))
    assert counted(without) == counted(plain), "over no rows"
    found = _of_parts(database, text, name, merge, PARTS)
    database.restore([name])
    return counted(found)


def _of_parts(
    database: Database, text: str, name: str, merge: PartsMerge, parts: int
) -> list[tuple]:
    """What is merged never sees the input: it is left without rows."""
    tree = tree_of(text)
    partial = _taken_apart(tree, merge)
    batches = []
    for part in range(parts):
        database.cut(name, f"(_row * 5) % {PARTS} = {part}")
        batches.append(database.run(partial))
    database.cut(name, "false")
    database.put("_partials", batches, partial)
    return database.run(tree)


def _taken_apart(tree: exp.Expr, merge: PartsMerge) -> exp.Select:
    """The query of partial groups; the scope that aggregates is changed in place to read
    `_partials` instead."""
    scope = next(s for s in tree.find_all(exp.Select) if _start(s) == merge.start)
    groups, aggregates = list(_groups(scope)), list(_aggregates(scope))
    partial = exp.Select(from_=scope.args["from_"].copy())
    for part in ("joins", "laterals"):
        partial.set(part, [e.copy() for e in scope.args.get(part) or ()])
    partial.set("where", scope.args["where"].copy() if scope.args.get("where") else None)
    items = [exp.alias_(g.copy(), f"g{i}") for i, g in enumerate(groups)]
    for i, aggregate in enumerate(aggregates):
        items += [exp.alias_(e, f"a{i}{n}") for n, e in enumerate(_partial(aggregate))]
    partial.set("expressions", items or [exp.Literal.number(1)])
    if groups:
        partial.set(
            "group", exp.Group(expressions=[exp.Literal.number(i + 1) for i in range(len(groups))])
        )
    clause = tree.args.get("with_")
    if clause is not None:
        partial.set("with_", clause.copy())
    _rewrite(scope, groups, aggregates)
    return partial


def _start(select: exp.Select) -> int:
    return min(
        (n.meta["start"] for item in select.expressions for n in item.walk() if "start" in n.meta),
        default=-1,
    )


def _groups(scope: exp.Select) -> Iterator[exp.Expr]:
    group = scope.args.get("group")
    for e in _flat(group) if group else ():
        aliased = {i.alias: i.this for i in scope.expressions if isinstance(i, exp.Alias)}
        if isinstance(e, exp.Literal) and not e.is_string:
            yield scope.expressions[int(e.name) - 1].unalias()
        else:
            yield aliased.get(e.name, e) if isinstance(e, exp.Column) and not e.table else e


def _flat(group: exp.Expr) -> list[exp.Expr]:
    """The expressions of a GROUP BY, out of its sets, each once."""
    found: list[exp.Expr] = []
    for e in group.iter_expressions():
        inner = isinstance(e, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple | exp.Paren)
        found += _flat(e) if inner else [e]
    return list(dict.fromkeys(found))


def _aggregates(scope: exp.Select) -> Iterator[exp.Expr]:
    seen = set()
    for part in ("expressions", "having", "order", "qualify"):
        value = scope.args.get(part)
        for top in value if isinstance(value, list) else [value] if value else []:
            for node in top.find_all(exp.AggFunc):
                whole = node.parent if isinstance(node.parent, exp.Filter) else node
                # Of merged groups, as it stands
                is_reported = isinstance(node, exp.Grouping | exp.GroupingId)
                is_own = (
                    not is_reported
                    and not isinstance(whole.parent, exp.Window)
                    and whole.find_ancestor(exp.Select) is scope
                )
                if is_own and whole not in seen:
                    seen.add(whole)
                    yield whole


def _inner(aggregate: exp.Expr) -> exp.Expr:
    return aggregate.this if isinstance(aggregate, exp.Filter) else aggregate


def _partial(aggregate: exp.Expr) -> list[exp.Expr]:
    if not isinstance(_inner(aggregate), exp.Avg):
        return [aggregate.copy()]
    return [exp.Sum(this=aggregate.this.copy()), exp.Count(this=aggregate.this.copy())]


def _rewrite(scope: exp.Select, groups: Sequence[exp.Expr], aggregates: Sequence[exp.Expr]) -> None:
    names, clause = [item.alias_or_name for item in scope.expressions], scope.args.get("with_")
    scope.set("with_", None)  # what it names stays as it is
    for at, aggregate in enumerate(aggregates):
        new = _merge(_inner(aggregate), at)
        for node in [n for n in scope.find_all(type(aggregate)) if n == aggregate]:
            node.replace(new.copy())
    for part in ("joins", "laterals", "where"):
        scope.set(part, None)
    scope.set("from_", exp.From(this=exp.to_table("_partials")))
    for at, group in enumerate(groups):
        for node in [n for n in scope.find_all(type(group)) if n == group]:
            node.replace(exp.column(f"g{at}"))
    for item, name in zip(list(scope.expressions), names, strict=True):
        if name and not isinstance(item, exp.Alias):
            item.replace(exp.alias_(item.copy(), name))
    scope.set("with_", clause)


def _merge(aggregate: exp.Expr, at: int) -> exp.Expr:
    one, two = exp.column(f"a{at}0"), exp.column(f"a{at}1")
    match aggregate:
        case exp.Count() | exp.CountIf():
            return exp.Coalesce(this=exp.Sum(this=one), expressions=[exp.Literal.number(0)])
        case exp.Avg():
            return exp.Paren(
                this=exp.Div(this=exp.Sum(this=one), expression=exp.Sum(this=two), typed=False)
            )
        case exp.Sum() | exp.Min() | exp.Max() | exp.LogicalOr() | exp.LogicalAnd():
            return type(aggregate)(this=one)
        case exp.BitwiseAndAgg() | exp.BitwiseOrAgg() | exp.BitwiseXorAgg():
            return type(aggregate)(this=one)
        case _:
            raise AssertionError(f"no merge of {aggregate.key}")

"""What must be true, worked out the slow and obvious way: rows from scratch, and a key for each
piece of work.

Imports nothing of the product, on purpose: it is what the product is held against. Does not belong
here: chance (changes), running anything (engine), comparing (world).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TypeAlias

Value: TypeAlias = int | str | None
Columns: TypeAlias = tuple[str, ...]
Row: TypeAlias = tuple[Value, ...]
Key: TypeAlias = tuple[object, ...]  # names a piece of work: the code, and all data that it reads
Places: TypeAlias = Mapping[str, tuple[str, int]]  # of columns: a file, and the place in it
# A multiset of rows, each with its columns' names
Content: TypeAlias = frozenset[tuple[tuple[Columns, Row], int]]

# --- source files --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class File:
    """A CSV file. `style` writes the same rows as other bytes; a broken one holds a line that is no
    row."""

    columns: Columns
    rows: tuple[Row, ...]
    style: int = 0
    broken: bool = False

    @property
    def text(self) -> str:
        lines = [",".join(self.columns), *(",".join(map(self._cell, row)) for row in self.rows)]
        return "".join(f"{line}\n" for line in [*lines, *(["boom"] if self.broken else [])])

    def _cell(self, value: Value) -> str:
        return "" if value is None else f'"{value}"' if self.style else str(value)


Folder: TypeAlias = Mapping[str, File]


@dataclass(frozen=True, slots=True)
class Fragment:
    """One partition's rows under the columns that it was written with."""

    columns: Columns
    rows: tuple[Row, ...]

    def under(self, columns: Columns) -> Iterator[Row]:
        """The rows as a reader of these columns sees them; what is not there is NULL."""
        places = [self.columns.index(c) if c in self.columns else None for c in columns]
        return (tuple(None if p is None else row[p] for p in places) for row in self.rows)


@dataclass(frozen=True, slots=True)
class Dataset:
    columns: Columns
    partitions: Mapping[str, Fragment]

    def rows(self) -> list[Row]:
        return [row for f in self.partitions.values() for row in f.under(self.columns)]


def content(fragments: Iterable[Fragment]) -> Content:
    return frozenset(Counter((f.columns, row) for f in fragments for row in f.rows).items())


# --- components ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Read:
    """CSV files of a folder: one partition for each name, or, `grouped`, for each text before the
    name's first `-`."""

    folder: str
    grouped: bool = False
    declared: Columns | None = None
    null: str = ""  # a text that is read as NULL

    def key_of(self, name: str) -> str:
        return _escaped(name.split("-")[0] if self.grouped else name)


def _escaped(text: str) -> str:
    safe = re.compile(r"[A-Za-z0-9._-]")
    return "".join(
        c if safe.fullmatch(c) else "".join(f"%{b:02X}" for b in c.encode()) for c in text
    )


@dataclass(frozen=True, slots=True)
class Pick:
    """Row by row. `columns` None is `*`; `shift` is added to v; only rows with more than `above` in
    v stay."""

    source: str
    columns: Columns | None = None
    shift: int = 0
    above: int | None = None
    named: bool = False  # `above` comes as a parameter

    @property
    def modes(self) -> dict[str, str]:
        return {self.source: "each"}

    @property
    def sql(self) -> str:
        items = ", ".join(self._item(c) for c in self.columns) if self.columns else "*"
        limit = ":low" if self.named else self.above
        return f"SELECT {items} FROM {self.source}" + (
            "" if self.above is None else f" WHERE v > {limit}"
        )

    def _item(self, column: str) -> str:
        return f"v + {self.shift} AS v" if column == "v" and self.shift else column

    def run(self, inputs: Mapping[str, Fragment]) -> Fragment:
        given = inputs[self.source]
        columns = self.columns or given.columns
        rows = (dict(zip(given.columns, row, strict=True)) for row in given.rows)
        kept = (r for r in rows if self.above is None or _above(r["v"], self.above))
        shift = self.shift if self.columns else 0
        return Fragment(
            columns, tuple(tuple(_plus(r[c], shift * (c == "v")) for c in columns) for r in kept)
        )


def _plus(value: Value, more: int) -> Value:
    return value + more if isinstance(value, int) else value


@dataclass(frozen=True, slots=True)
class Join:
    """Each row of `left` with the rows of `right` that have its k; `outer` keeps rows that meet
    none."""

    left: str
    right: str
    name: str  # of the column that is added
    outer: bool = False
    star: bool = False

    @property
    def modes(self) -> dict[str, str]:
        return {self.right: "all"} | {self.left: "all" if self.left == self.right else "each"}

    @property
    def sql(self) -> str:
        items = "l.*" if self.star else "l.k, l.v"
        kind = "LEFT JOIN" if self.outer else "JOIN"
        return f"SELECT {items}, r.v AS {self.name} FROM {self.left} AS l {kind} {self.right} AS r ON l.k = r.k"

    def run(self, inputs: Mapping[str, Fragment]) -> Fragment:
        left, right = inputs[self.left], inputs[self.right]
        own = left.columns if self.star else ("k", "v")
        matches: dict[Value, list[Value]] = {}
        for k, v in right.under(("k", "v")):
            matches.setdefault(k, []).append(v)
        rows = []
        for row, (k,) in zip(left.under(own), left.under(("k",)), strict=True):
            found = [] if k is None else matches.get(k, [])
            rows += [(*row, v) for v in found or ([None] if self.outer else [])]
        return Fragment((*own, self.name), tuple(rows))


@dataclass(frozen=True, slots=True)
class Among:
    """Rows of `left` whose k stands in `right`."""

    left: str
    right: str

    @property
    def modes(self) -> dict[str, str]:
        return {self.right: "all"} | {self.left: "all" if self.left == self.right else "each"}

    @property
    def sql(self) -> str:
        return f"SELECT k, v FROM {self.left} WHERE k IN (SELECT k FROM {self.right})"

    def run(self, inputs: Mapping[str, Fragment]) -> Fragment:
        known = {k for (k,) in inputs[self.right].under(("k",)) if k is not None}
        return Fragment(
            ("k", "v"), tuple(r for r in inputs[self.left].under(("k", "v")) if r[0] in known)
        )


@dataclass(frozen=True, slots=True)
class Total:
    """Sums by k, or over everything: then there is always one row."""

    source: str
    by_key: bool = True
    above: int | None = None

    @property
    def modes(self) -> dict[str, str]:
        return {self.source: "all"}

    @property
    def sql(self) -> str:
        where = "" if self.above is None else f" WHERE v > {self.above}"
        if self.by_key:
            return f"SELECT k, sum(v) AS v, count(*) AS n FROM {self.source}{where} GROUP BY k"
        return f"SELECT max(k) AS k, sum(v) AS v, count(v) AS n FROM {self.source}{where}"

    def run(self, inputs: Mapping[str, Fragment]) -> Fragment:
        rows = [
            r
            for r in inputs[self.source].under(("k", "v"))
            if self.above is None or _above(r[1], self.above)
        ]
        if not self.by_key:
            values = [v for _, v in rows if isinstance(v, int)]
            biggest = max((k for k, _ in rows if isinstance(k, int)), default=None)
            return Fragment(("k", "v", "n"), ((biggest, _sum(values), len(values)),))
        groups: dict[Value, list[Value]] = {}
        for k, v in rows:
            groups.setdefault(k, []).append(v)
        return Fragment(("k", "v", "n"), tuple((k, _sum(vs), len(vs)) for k, vs in groups.items()))


def _above(value: Value, least: int) -> bool:
    return isinstance(value, int) and value > least


def _sum(values: Sequence[Value]) -> int | None:
    numbers = [v for v in values if isinstance(v, int)]
    return sum(numbers) if numbers else None


@dataclass(frozen=True, slots=True)
class Both:
    """The rows of two inputs, one after the other, and so in each partition."""

    first: str
    second: str

    @property
    def modes(self) -> dict[str, str]:
        return dict.fromkeys((self.first, self.second), "each")

    @property
    def sql(self) -> str:
        return f"SELECT k, v FROM {self.first} UNION ALL SELECT k, v FROM {self.second}"

    def run(self, inputs: Mapping[str, Fragment]) -> Fragment:
        return Fragment(
            ("k", "v"),
            tuple(r for n in (self.first, self.second) for r in inputs[n].under(("k", "v"))),
        )


@dataclass(frozen=True, slots=True)
class Distinct:
    """Every row once."""

    source: str

    @property
    def modes(self) -> dict[str, str]:
        return {self.source: "all"}

    @property
    def sql(self) -> str:
        return f"SELECT DISTINCT * FROM {self.source}"

    def run(self, inputs: Mapping[str, Fragment]) -> Fragment:
        given = inputs[self.source]
        return Fragment(given.columns, tuple(dict.fromkeys(given.rows)))


@dataclass(frozen=True, slots=True)
class Grouped:
    """For each k one partition, of all rows that have it, in whatever partitions they lie: sums, or
    each row once.

    `whole`: one run over everything, whose rows are then dealt out by k.
    """

    source: str
    above: int | None = None
    star: bool = False
    whole: bool = False

    @property
    def modes(self) -> dict[str, str]:
        return {self.source: "all" if self.whole else "by"}

    @property
    def sql(self) -> str:
        where = "" if self.above is None else f" WHERE v > {self.above}"
        items = "DISTINCT *" if self.star else "k, sum(v) AS v, count(*) AS n"
        return f"SELECT {items} FROM {self.source}{where}" + ("" if self.star else " GROUP BY k")

    def run(self, inputs: Mapping[str, Fragment]) -> Fragment:
        given = inputs[self.source]
        if self.star:
            v = given.columns.index("v")
            kept = (r for r in given.rows if self.above is None or _above(r[v], self.above))
            return Fragment(given.columns, tuple(dict.fromkeys(kept)))
        return Total(self.source, True, self.above).run(inputs)


@dataclass(frozen=True, slots=True)
class Meeting:
    """Joined by k. With `dimension` the right side is read whole, else both sides by k: then both
    names differ."""

    left: str
    right: str
    dimension: bool = False

    @property
    def modes(self) -> dict[str, str]:
        return {self.left: "by", self.right: "all" if self.dimension else "by"}

    @property
    def sql(self) -> str:
        pair = f"{self.left} AS l LEFT JOIN {self.right} AS r ON l.k = r.k"
        return f"SELECT l.k, count(*) AS v, sum(r.v) AS w FROM {pair} GROUP BY l.k"

    def run(self, inputs: Mapping[str, Fragment]) -> Fragment:
        joined = Join(self.left, self.right, "w", outer=True).run(inputs)
        groups: dict[Value, list[Value]] = {}
        for k, _, w in joined.rows:
            groups.setdefault(k, []).append(w)
        return Fragment(("k", "v", "w"), tuple((k, len(ws), _sum(ws)) for k, ws in groups.items()))


@dataclass(frozen=True, slots=True)
class Near:
    """Each row of the left side with those of the right side from `before` minutes earlier to
    `after` minutes later. Both sides are kept by hour; `wider`: minutes that are read in vain."""

    left: str
    right: str
    before: int
    after: int = 0
    wider: int = 0

    @property
    def modes(self) -> dict[str, str]:
        return {self.left: "by", self.right: "by"}

    @property
    def reach(self) -> dict[str, str]:
        sides = {"before": self.before, "after": self.after}
        return {side: f"{n + self.wider}m" for side, n in sides.items() if n + self.wider}

    @property
    def sql(self) -> str:
        return (
            f"SELECT l.t, l.v, r.v AS w FROM {self.left} AS l LEFT JOIN {self.right} AS r"
            f" ON r.t >= l.t - {self.before} AND r.t <= l.t + {self.after}"
        )

    def run(self, inputs: Mapping[str, Fragment]) -> Fragment:
        others = list(inputs[self.right].under(("t", "v")))
        rows: list[Row] = []
        for t, v in inputs[self.left].under(("t", "v")):
            near = [w for other, w in others if self._is_near(t, other)]
            rows += [(t, v, w) for w in near or [None]]
        return Fragment(("t", "v", "w"), tuple(rows))

    def _is_near(self, t: Value, other: Value) -> bool:
        if not isinstance(t, int) or not isinstance(other, int):
            return False
        return t - self.before <= other <= t + self.after

    def hours(self, hour: int) -> range:
        """Those of the right side that this hour reads."""
        first, last = 60 * hour - self.before - self.wider, 60 * hour + 60 + self.after + self.wider
        return range(first // 60, (last - 1) // 60 + 1)


@dataclass(frozen=True, slots=True)
class Fold:
    """For each k the sum, or the greatest, of v in this partition and all before it, in the order
    of keys."""

    source: str
    most: bool = False
    above: int | None = None

    @property
    def modes(self) -> dict[str, str]:
        return {self.source: "each"}

    @property
    def sql(self) -> str:
        where = "" if self.above is None else f" WHERE v > {self.above}"
        rows = f"SELECT k, v FROM self UNION ALL SELECT k, v FROM {self.source}{where}"
        return f"SELECT k, {'max' if self.most else 'sum'}(v) AS v FROM ({rows}) GROUP BY k"

    def run(self, inputs: Mapping[str, Fragment]) -> Fragment:
        rows = [
            r
            for r in inputs[self.source].under(("k", "v"))
            if self.above is None or _above(r[1], self.above)
        ]
        groups: dict[Value, list[int]] = {}
        for k, v in [*inputs[SELF].rows, *rows]:
            groups.setdefault(k, []).extend([v] if isinstance(v, int) else [])
        join = max if self.most else sum
        return Fragment(
            ("k", "v"), tuple((k, join(vs) if vs else None) for k, vs in groups.items())
        )


@dataclass(frozen=True, slots=True)
class Copy:
    """A write component: an external copy of `source`."""

    source: str


class Further(ABC):
    """Transforms of other modules. `sql` is the text, in whatever language; `keyed` ones are
    partitioned by k."""

    keyed: bool = False

    @property
    @abstractmethod
    def modes(self) -> dict[str, str]: ...

    @property
    @abstractmethod
    def sql(self) -> str: ...

    @abstractmethod
    def run(self, inputs: Mapping[str, Fragment]) -> Fragment: ...

    @abstractmethod
    def edited(self, number: int) -> Further:
        """Something like it, of other code."""


Transform: TypeAlias = (
    Pick | Join | Among | Total | Both | Distinct | Grouped | Meeting | Near | Fold | Further
)
SELF = "self"  # the partition before
KEY = "k"  # the column of which keys are made
TIME = "t"  # the same by hour, in datasets that have it: minutes since a day
DAY = date(2026, 1, 1)
Component: TypeAlias = Read | Transform | Copy
Flows: TypeAlias = Mapping[str, Mapping[str, Component]]  # components of each flow, inputs first


def names_of(component: Component) -> tuple[str, ...]:
    """The inputs as the component names them."""
    match component:
        case Read():
            return ()
        case Copy(source=source):
            return (source,)
        case _:
            return tuple(component.modes)


def code_of(component: Transform) -> str:
    if not isinstance(component, Near):
        return component.sql
    seconds = (60 * (n + component.wider) for n in (component.before, component.after))
    return " ".join([component.sql, *map(str, seconds)])


def params_of(component: Transform) -> dict[str, int]:
    match component:
        case Pick(named=True, above=int(above)):
            return {"low": above}
        case _:
            return {}


def is_keyed(component: Component) -> bool:
    """The output's partitions are those of k."""
    return isinstance(component, Grouped | Meeting | Near) or (
        isinstance(component, Further) and component.keyed
    )


def qualified(flow: str, name: str) -> str:
    return name if "." in name else f"{flow}.{name}"


def everything(flows: Flows) -> dict[str, Component]:
    return {f"{flow}.{name}": c for flow, parts in flows.items() for name, c in parts.items()}


def inputs_of(dataset: str, component: Component) -> dict[str, str]:
    """Name in the text -> dataset."""
    return {name: qualified(dataset.split(".")[0], name) for name in names_of(component)}


def named_columns(component: Transform, columns: Columns) -> Columns:
    """What of an input's columns the code can see: those that it names, or all if it holds a `*`
    for columns."""
    if "*" in component.sql.replace("count(*)", ""):
        return columns
    words = set(re.findall(r"\w+", component.sql))
    return tuple(c for c in columns if c in words)


# --- truth and thrift ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seen:
    """Columns of files: the first file by name that has each, and its place there; and those with a
    value."""

    places: Places
    valued: frozenset[str] = frozenset()


def seen_of(files: Folder, before: Seen | None = None, null: str = "") -> Seen:
    """`before`: files that were there earlier. `null`: a text that is no value."""
    places = dict(before.places if before else {})
    valued = set(before.valued if before else ())
    for name, file in files.items():
        for at, column in enumerate(file.columns):
            places[column] = min(places.get(column, (name, at)), (name, at))
            if any(_nulled(row[at], null) is not None for row in file.rows):
                valued.add(column)
    return Seen(places, frozenset(valued))


def columns_of(component: Read, places: Places) -> Columns:
    """Declared ones first, then those of files by their places; by name where a replaced file gave
    two one place."""
    declared = component.declared or ()
    return (
        *declared,
        *sorted(
            (c for c in places if c not in declared), key=lambda column: (places[column], column)
        ),
    )


def read(component: Read, files: Folder, seen: Seen) -> tuple[Dataset, dict[str, Key]]:
    """All files, from scratch, under a schema that only grows; and the key of each partition's
    work. `seen`: these files, and earlier ones."""
    groups: dict[str, dict[str, File]] = {}
    for name in sorted(files):
        groups.setdefault(component.key_of(name), {})[name] = files[name]
    columns = columns_of(component, seen.places)
    partitions, keys = {}, {}
    for key, group in groups.items():
        places = seen_of(group).places
        own = tuple(c for c in columns_of(component, places) if c in places)
        numbers = (c for c in own if c in seen.valued and not c.startswith("s"))
        inferred = tuple(c for c in numbers if c not in (component.declared or ()))
        keys[key] = parse_key([f.text for f in group.values()], own, inferred, component.null)
        rows = (row for f in group.values() for row in Fragment(f.columns, f.rows).under(own))
        partitions[key] = Fragment(
            own, tuple(tuple(_nulled(v, component.null) for v in row) for row in rows)
        )
    return Dataset(columns, partitions), keys


def _nulled(value: Value, null: str) -> Value:
    return None if null and str(value) == null else value


def parse_key(texts: Iterable[str], own: Columns, inferred: Columns, null: str) -> Key:
    """`inferred`: columns of numbers that no schema declares: their texts are checked."""
    return "parse", null, tuple(sorted(texts)), own, inferred


def task_key(
    sql: str, params: Mapping[str, int], slots: Mapping[str, Key], *, is_dealt: bool = False
) -> Key:
    """`slots`: name -> (mode, content, columns that are seen). `is_dealt`: the rows of one run go
    out to many keys."""
    kind = "transform and deal" if is_dealt else "transform"
    return (
        kind,
        sql,
        tuple(sorted(params.items())),
        tuple(sorted(slots.items(), key=lambda s: s[0])),
    )


def salted(key: Key, salt: object) -> Key:
    """The key of work whose result is one dataset's own; `salt` is None where it is everybody's."""
    return key if salt is None else ("own", salt, key)


def index_key(fragment: Fragment, seen: Columns) -> Key:
    """Telling apart the rows of one partition, as the reader sees them."""
    return "index", content([fragment]), seen


def key_column(columns: Columns) -> str:
    return TIME if TIME in columns else KEY


def key_of(value: Value, column: str = KEY) -> str:
    if value is None:
        return column
    if column == KEY or not isinstance(value, int):
        return f"{column}={value}"
    days, hour = divmod(value // 60, 24)
    return f"{column}={DAY + timedelta(days)}T{hour:02}"


def by_key(dataset: Dataset) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    column = key_column(dataset.columns)
    place = dataset.columns.index(column)
    for row in dataset.rows():
        found.setdefault(key_of(row[place], column), []).append(row)
    return found


def transform_by(
    component: Transform, inputs: Mapping[str, Dataset]
) -> tuple[Dataset, dict[str, Key]]:
    """One run for each k of the inputs that are read by it; and for each partition of these the
    work of an index."""
    modes = component.modes
    seen = {name: named_columns(component, inputs[name].columns) for name in modes}
    groups = {name: by_key(inputs[name]) for name, mode in modes.items() if mode == "by"}
    whole = {n: Fragment(d.columns, tuple(d.rows())) for n, d in inputs.items()}
    contents = {
        name: content(inputs[name].partitions.values()) for name in modes if name not in groups
    }
    keys = {
        f"index {name} {p}": index_key(f, seen[name])
        for name in groups
        for p, f in inputs[name].partitions.items()
        if f.rows
    }
    partitions = {}
    leading = [component.left] if isinstance(component, Near) else list(groups)
    for key in {k for name in leading for k in groups[name]}:
        given = {n: Fragment(inputs[n].columns, tuple(of.get(key, ()))) for n, of in groups.items()}
        if isinstance(component, Near):
            given[component.right] = _near(component, given[component.left], inputs)
        slots: dict[str, Key] = {
            n: (mode, content_seen(given[n], seen[n]) if n in given else contents[n], seen[n])
            for n, mode in modes.items()
        }
        keys[key] = task_key(code_of(component), params_of(component), slots)
        if isinstance(component, Near):  # rows from scratch: whatever is in reach
            given = {component.left: given[component.left]}
        partitions[key] = component.run(whole | given)
    columns = component.run({n: Fragment(d.columns, ()) for n, d in inputs.items()}).columns
    return Dataset(columns, partitions), keys


def _near(component: Near, own: Fragment, inputs: Mapping[str, Dataset]) -> Fragment:
    """The rows of the right side that a partition of these rows reads."""
    right = inputs[component.right]
    place, [t, *_] = right.columns.index(TIME), own.rows[0]
    hours = component.hours(t // 60) if isinstance(t, int) else None
    rows = (
        row
        for row in right.rows()
        if (row[place] is None if hours is None else _hour(row[place]) in hours)
    )
    return Fragment(right.columns, tuple(rows))


def _hour(value: Value) -> int | None:
    return value // 60 if isinstance(value, int) else None


def transform_fold(component: Fold, given: Dataset) -> tuple[Dataset, dict[str, Key]]:
    """One run after the other, in the order of keys; each reads what the one before it gave."""
    seen = named_columns(component, given.columns)
    keys, partitions, before = {}, {}, Fragment(("k", "v"), ())
    for key in sorted(given.partitions):
        mine = given.partitions[key]
        slots: dict[str, Key] = {
            component.source: ("each", content([mine]), seen),
            SELF: ("previous", content([before]), ("k", "v")),
        }
        keys[key] = task_key(component.sql, params_of(component), slots)
        table = Fragment(given.columns, tuple(mine.under(given.columns)))
        before = partitions[key] = component.run({component.source: table, SELF: before})
    return Dataset(("k", "v"), partitions), keys


def content_seen(fragment: Fragment, seen: Columns) -> Content:
    """Of rows by key: what the reader sees of them, whatever columns they were written with."""
    return content([Fragment(seen, tuple(fragment.under(seen)))])


Runs: TypeAlias = dict[str, list[Fragment]]  # fragments by input


def transform(
    component: Transform, inputs: Mapping[str, Dataset]
) -> tuple[Dataset, dict[str, Key]]:
    """One run for each partition of the inputs that are read by partitions; one run without such an
    input."""
    modes = component.modes
    if isinstance(component, Fold):
        return transform_fold(component, inputs[component.source])
    if "by" in modes.values():
        return transform_by(component, inputs)
    each = [name for name, mode in modes.items() if mode == "each"]
    whole = {name: list(inputs[name].partitions.values()) for name in modes}
    runs = _by_partition({name: inputs[name] for name in each}, whole) if each else {"": whole}
    partitions, keys = {}, {}
    seen = {name: named_columns(component, inputs[name].columns) for name in modes}
    contents = {name: content(whole[name]) for name in modes if name not in each}
    for key, given in runs.items():
        slots: dict[str, Key] = {
            name: (mode, content(given[name]) if name in each else contents[name], seen[name])
            for name, mode in modes.items()
        }
        keys[key] = task_key(
            component.sql, params_of(component), slots, is_dealt=is_keyed(component)
        )
        tables = {
            n: Fragment(inputs[n].columns, _rows(fs, inputs[n].columns)) for n, fs in given.items()
        }
        partitions[key] = component.run(tables)
    columns = component.run({n: Fragment(d.columns, ()) for n, d in inputs.items()}).columns
    if is_keyed(component):
        dealt = by_key(Dataset(columns, partitions))
        partitions = {key: Fragment(columns, tuple(rows)) for key, rows in dealt.items()}
    return Dataset(columns, partitions), keys


def _by_partition(
    each: Mapping[str, Dataset], whole: Mapping[str, list[Fragment]]
) -> dict[str, Runs]:
    """What each partition reads: those of its key, of which some inputs may have none."""
    keys = dict.fromkeys(k for dataset in each.values() for k in dataset.partitions)
    return {
        k: {**whole, **{n: [d.partitions[k]] if k in d.partitions else [] for n, d in each.items()}}
        for k in keys
    }


def _rows(fragments: Iterable[Fragment], columns: Columns) -> tuple[Row, ...]:
    return tuple(row for f in fragments for row in f.under(columns))


Derived: TypeAlias = dict[str, tuple[Dataset, dict[str, Key]]]


def derive(
    flows: Flows, reads: Mapping[str, Dataset], wanted: Iterable[str] | None = None
) -> Derived:
    """Every transform (or those wanted, and what they need) over these read datasets, with the keys
    of its work."""
    components, found = everything(flows), dict[str, tuple[Dataset, dict[str, Key]]]()

    def dataset(name: str) -> Dataset:
        return reads[name] if name in reads else visit(name)[0]

    def visit(name: str) -> tuple[Dataset, dict[str, Key]]:
        if name not in found:
            component = components[name]
            assert not isinstance(component, Read | Copy)
            found[name] = transform(
                component, {n: dataset(d) for n, d in inputs_of(name, component).items()}
            )
        return found[name]

    for name in components if wanted is None else wanted:
        if not isinstance(components[name], Read | Copy):
            visit(name)
    return found


def downstream(flows: Flows, roots: Iterable[str]) -> set[str]:
    """These datasets and all that is made of them."""
    components, found = everything(flows), set(roots)
    grown = True
    while grown:
        more = {
            d for d, c in components.items() if not found.isdisjoint(inputs_of(d, c).values())
        } - found
        found |= more
        grown = bool(more)
    return found


def sources(flows: Flows, dataset: str) -> frozenset[str]:
    """The read components that a dataset is made of."""
    components = everything(flows)
    if isinstance(components[dataset], Read):
        return frozenset({dataset})
    above = inputs_of(dataset, components[dataset]).values()
    return frozenset(s for d in above for s in sources(flows, d))

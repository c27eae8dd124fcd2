"""What branches are to be, worked out from scratch: texts and how they merge, rows, and the work
that they are made by.

Imports nothing of the product: it is what the product is held against. Does not belong here: chance
(branching).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

NAMES = ("doubled", "scaled", "grown")
Rows: TypeAlias = tuple[tuple[int, int], ...]
Parts: TypeAlias = Mapping[str, Rows]  # a dataset by partition
Task: TypeAlias = tuple[str, object, object]  # what is computed, how, and of what


def rows_of(parts: Parts) -> list[tuple[int, int]]:
    return sorted((row for rows in parts.values() for row in rows), key=repr)


# --- what is wished for ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Flow:
    """The text of one branch. Each field is a unit of its own when branches merge."""

    factor: int = 2
    name: str = NAMES[0]
    owner: str = "ann"
    plus: int = 1

    @property
    def text(self) -> str:
        return (
            f"  {self.name}:\n    owner: {self.owner}\n"
            f"    transform: {{sql: 'SELECT k, {self.factor} * v AS v FROM orders'}}\n"
            f"  sums:\n    transform: {{sql: 'SELECT k, sum(v) AS v FROM {self.name} GROUP BY k'}}\n"
            f"  other:\n    transform: {{sql: 'SELECT k, v + {self.plus} AS v FROM orders'}}\n"
            "  both:\n    transform: {sql: 'SELECT d.k, d.v + o.v AS v FROM "
            f"{self.name} d JOIN other o ON d.k = o.k'}}\n"
            f"  copy:\n    write: {{connector: files, from: {self.name}, path: /out/copy, format: csv}}\n"
        )

    @property
    def scaled(self) -> str:
        return f"shop.{self.name}"

    @property
    def codes(self) -> dict[str, object]:
        """Of each dataset, inputs first; what its own component says about its rows."""
        return {
            "shop.orders": None,
            self.scaled: self.factor,
            "shop.sums": self.name,
            "shop.other": self.plus,
            "shop.both": self.name,
        }

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        return {
            "shop.orders": (),
            self.scaled: ("shop.orders",),
            "shop.sums": (self.scaled,),
            "shop.other": ("shop.orders",),
            "shop.both": (self.scaled, "shop.other"),
        }

    def below(self, datasets: set[str]) -> set[str]:
        """These, as far as there are such, and all that follows from them."""
        found: set[str] = set()
        for dataset, above in self.inputs.items():
            if dataset in datasets or found & set(above):
                found.add(dataset)
        return found

    def made_of(
        self, files: Parts, held: Mapping[str, Parts]
    ) -> tuple[dict[str, Parts], set[Task]]:
        """All datasets from scratch over these files, where some are held; and the work for it but
        that for `both`."""
        found: dict[str, Parts] = {}
        tasks: set[Task] = set()

        def put(dataset: str, parts: Parts, work: set[Task]) -> Parts:
            found[dataset] = held.get(dataset, parts)
            tasks.update(set() if dataset in held else work)
            return found[dataset]

        # Files are told apart by their bytes, so by the order of their rows; what is made of rows
        # is not.
        orders = put("shop.orders", dict(files), {("parse", None, rows) for rows in files.values()})
        each = {tuple(sorted(rows)) for rows in orders.values()}
        scaled = {key: tuple((k, self.factor * v) for k, v in rows) for key, rows in orders.items()}
        scaled_parts = put(self.scaled, scaled, {("scale", self.factor, rows) for rows in each})
        sums: Counter[int] = Counter()
        for k, v in rows_of(scaled_parts):
            sums[k] += v
        put(
            "shop.sums",
            {"": tuple(sums.items())},
            {("sum", self.name, tuple(rows_of(scaled_parts)))},
        )
        plus = {key: tuple((k, v + self.plus) for k, v in rows) for key, rows in orders.items()}
        other = rows_of(put("shop.other", plus, {("add", self.plus, rows) for rows in each}))
        both = tuple((k, v + w) for k, v in rows_of(scaled_parts) for key, w in other if k == key)
        put("shop.both", {"": both}, set())
        return found, tasks


FIELDS = ("factor", "name", "owner", "plus")


def merged(base: Flow, ours: Flow, theirs: Flow) -> Flow | None:
    """None if there is a conflict."""
    found: dict[str, Any] = {}
    for field_ in FIELDS:
        was, mine, other = (getattr(one, field_) for one in (base, ours, theirs))
        if mine != other and was not in (mine, other):
            return None
        found[field_] = other if mine == was else mine
    return Flow(**found)


@dataclass
class Line:
    """Main, or a branch. `texts`: its own ones, oldest first. `fork`: the text of main that the
    first one follows. `seen`: rows by dataset and generation, as far as a step ended with them."""

    texts: list[Flow] = field(default_factory=list)
    fork: int = 0
    holds: dict[str, Parts] = field(default_factory=dict)
    seen: dict[str, dict[int, Parts]] = field(default_factory=dict)
    pin: Main | None = None
    place: str = ""  # where its copy goes


@dataclass
class Main:
    """What a pinned branch sees of main: up to which of its texts, and all else as it was then."""

    last: int
    files: dict[str, Rows]
    holds: dict[str, Parts]
    seen: dict[str, dict[int, Parts]]

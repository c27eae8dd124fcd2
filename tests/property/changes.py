"""Chance: random dataflows, and random changes of files, code and wishes, all from one seed.

Does not belong here: comparing (world), what is true (model).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.property import model
from tests.property.engine import Fault, Faults
from tests.property.further import Ranked, Script, Way
from tests.property.model import (
    Among,
    Both,
    Component,
    Copy,
    Distinct,
    File,
    Flows,
    Fold,
    Further,
    Grouped,
    Join,
    Meeting,
    Pick,
    Read,
    Total,
    Transform,
)
from tests.property.world import World

NAMES = [f"{part}-{n}.csv" for part in ("a", "b", "c d", "e=ü") for n in (1, 2, 3)]
FAULTS: tuple[Fault, ...] = ("dies", "dies late", "dies between", "stutters", "straggles")


class Changes:
    """Draws changes for one world and carries them out. `told` says in words what was done."""

    def __init__(self, seed: int, world: World) -> None:
        self.chance, self.world = random.Random(seed), world
        self.told: list[str] = []
        self.styles: dict[str, int] = {}
        self._revisions: list[Flows] = []
        self._versions: list[tuple[str, str, File]] = []  # what files once were
        self._count = 0

    # --- the beginning ----------------------------------------------------------------------------

    def begin(self) -> None:
        for folder in ("one", "two", "three")[: self.chance.randint(1, 3)]:
            for name in self.chance.sample(NAMES, self.chance.choice([1, 2, 3, 4, 9])):
                self._put(folder, name, self._file())
        flows: dict[str, dict[str, Component]] = {"a": {}}
        for _ in range(self.chance.randint(1, 3)):
            flows["a"][self._name()] = self._read()
        for _ in range(self.chance.randint(2, 6)):
            self._grow(flows, "a")
        self._apply(flows)

    def begin_with_folds(self) -> None:
        """Mostly folds, one of them over another one."""
        for name in self.chance.sample(NAMES, self.chance.randint(3, 9)):
            self._put("one", name, self._file())
        names = [self._name() for _ in range(6)]
        days, sums, most, over, after, total = names
        parts: dict[str, Component] = {
            days: Read("one", self.chance.random() < 0.3, ("k", "v")),
            sums: Fold(days, above=self.chance.choice([None, 3])),
            most: Fold(days, most=True),
            over: Fold(most, self.chance.random() < 0.5),
            after: Pick(most, ("k", "v"), 1, 4),
            total: Total(sums),
        }
        self._apply({"a": parts})

    def _name(self) -> str:
        self._count += 1
        return f"d{self._count}"

    def _read(self) -> Read:
        declared = self.chance.choice([("k", "v"), None])
        return Read(
            self.chance.choice(list(self.world.folders)), self.chance.random() < 0.3, declared
        )

    def _grow(self, flows: dict[str, dict[str, Component]], flow: str) -> None:
        """One more component, mostly on the newest ones, so that there are chains and diamonds."""
        near = [n for n, c in flows[flow].items() if not isinstance(c, Copy)]
        far = (
            [f"a.{n}" for n, c in flows["a"].items() if not isinstance(c, Copy)]
            if flow != "a"
            else []
        )
        known = near[-3:] + near + far
        flows[flow][self._name()] = self._transform(*self.chance.choices(known, k=2))

    def _transform(self, one: str, two: str) -> Transform:
        number = self.chance.randint(0, 6)
        match self.chance.randint(0, 15):
            case 0 | 1:
                return Pick(
                    one,
                    ("k", "v"),
                    self.chance.randint(0, 2),
                    number,
                    named=self.chance.random() < 0.3,
                )
            case 2:
                return Pick(one, self.chance.choice([("k", "v"), ("v", "k")]), number)
            case 3:
                return Pick(one, None, above=self.chance.choice([None, number]))
            case 4 | 5:
                outer, star = self.chance.random() < 0.5, self.chance.random() < 0.4
                return Join(one, two, f"j{self._count}", outer, star)
            case 6:
                return Among(one, two)
            case 7:
                return Total(one, self.chance.random() < 0.7, self.chance.choice([None, number]))
            case 8:
                return Distinct(one)
            case 9:
                return Both(one, two)
            case 10 | 11:
                star, whole = self.chance.random() < 0.3, self.chance.random() < 0.3
                return Grouped(one, self.chance.choice([None, number]), star, whole)
            case 12 | 13:
                return Fold(one, self.chance.random() < 0.6, self.chance.choice([None, number]))
            case _ if one != two:
                return Meeting(one, two, dimension=self.chance.random() < 0.5)
            case _:
                return Grouped(one)

    def _file(self, columns: model.Columns = ("k", "v")) -> File:
        return File(columns, tuple(self._row(columns) for _ in range(self.chance.randint(0, 4))))

    def _row(self, columns: model.Columns) -> model.Row:
        most = {"k": 3, "v": 9}
        return tuple(
            None if self.chance.random() < 0.1 else self._value(c, most.get(c, 5)) for c in columns
        )

    def _value(self, column: str, most: int) -> model.Value:
        return self.chance.choice("pqr") if column.startswith("s") else self.chance.randint(0, most)

    # --- one step ---------------------------------------------------------------------------------

    def step(self) -> None:
        """One change, or a few at once."""
        several = self.chance.random() < 0.15
        for _ in range(self.chance.randint(2, 4) if several else 1):
            self._change()

    def _change(self) -> None:
        files = self._file_changes()
        wishes = [
            self._edit,
            self._edit,
            self._restyle,
            self._revert,
            self._add,
            self._drop,
            self._twin,
            self._pause,
        ]
        change = self.chance.choice(files if self.chance.random() < 0.55 else wishes)
        self.told.append(change.__name__.strip("_"))
        change()

    def step_in_flight(self) -> None:
        """A change that the model can follow while work is under way: none of columns, or of how
        files are read."""
        files = [self._new, self._rows, self._rows, self._delete, self._rename, self._copy]
        change = self.chance.choice([*files, self._edit_transform])
        self.told.append(change.__name__.strip("_"))
        change()

    def interrupt(self) -> None:
        """A short pause: what is under way is given up, and what it built stays."""
        for dataset, component in model.everything(self.world.flows).items():
            if not isinstance(component, Read) and self.chance.random() < 0.5:
                self.told.append("interrupt")
                self.world.pause(dataset, paused=True)
                self.world.pause(dataset, paused=False)

    def step_of_time(self) -> None:
        """A day is over, or somebody wants something anew."""
        change = self.chance.choice([self._turn, self._force, self._force])
        self.told.append(change.__name__.strip("_"))
        change()

    def declare_daily(self) -> None:
        known = [
            d
            for d, c in model.everything(self.world.flows).items()
            if not isinstance(c, Read | Copy)
        ]
        self.world.daily = set(self.chance.sample(known, self.chance.randint(1, len(known))))
        self.world.apply(self.world.flows, self.styles)

    def faults(self) -> Faults:
        """A few faults for one settling; fewer than a task may have before it is given up."""
        left = iter(self.chance.choices(FAULTS, k=3))
        return lambda kind: (
            next(left, "none")
            if self.chance.random() < (0.03 if kind == "list" else 0.4)
            else "none"
        )

    # --- files ------------------------------------------------------------------------------------

    def _file_changes(self) -> list[Callable[[], None]]:
        often = [self._new, self._rows, self._rows, self._delete, self._rename, self._copy]
        seldom = [
            self._same_rows,
            self._touch,
            self._column,
            self._columns,
            self._break,
            self._old,
            self._same_size,
        ]
        return often + seldom

    def _put(self, folder: str, name: str, file: File) -> None:
        self._versions.append((folder, name, file))
        self.world.put(folder, name, file)

    def _some_file(self) -> tuple[str, str, File] | None:
        known = [
            (folder, n, f) for folder, files in self.world.folders.items() for n, f in files.items()
        ]
        return self.chance.choice(known) if known else None

    def _free(self, folder: str) -> str | None:
        names = [n for n in NAMES if n not in self.world.folders[folder]]
        return self.chance.choice(names) if names else None

    def _replace(self, folder: str, name: str, file: File) -> None:
        """Put the file there, if its folder can still be read: some file has k and v, or all
        schemas are declared."""
        if self._is_readable(folder, {**self.world.folders[folder], name: file}):
            self._put(folder, name, file)

    def _is_readable(self, folder: str, files: model.Folder) -> bool:
        reads = [
            c
            for c in model.everything(self.world.flows).values()
            if isinstance(c, Read) and c.folder == folder
        ]
        if not files:
            return all(r.declared for r in reads)
        return any({"k", "v"} <= set(f.columns) for f in files.values())

    def _new(self) -> None:
        folder = self.chance.choice(list(self.world.folders))
        if name := self._free(folder):
            self._put(folder, name, self._file())

    def _rows(self) -> None:
        if found := self._some_file():
            folder, name, file = found
            self._put(folder, name, self._file(file.columns))

    def _same_size(self) -> None:
        """Other bytes, but as many of them."""
        if (found := self._some_file()) and found[2].rows:
            folder, name, file = found
            rows = tuple(
                tuple((v + 1) % 10 if isinstance(v, int) else v for v in row) for row in file.rows
            )
            self._put(folder, name, replace(file, rows=rows))

    def _same_rows(self) -> None:
        """Other bytes, the same rows."""
        if found := self._some_file():
            folder, name, file = found
            self._put(folder, name, replace(file, rows=file.rows[::-1], style=1 - file.style))

    def _delete(self) -> None:
        if found := self._some_file():
            folder, name, _ = found
            left = {n: f for n, f in self.world.folders[folder].items() if n != name}
            if self._is_readable(folder, left):
                self.world.remove(folder, name)

    def _rename(self) -> None:
        if (found := self._some_file()) and (other := self._free(found[0])):
            self.world.rename(found[0], found[1], other)

    def _touch(self) -> None:
        if found := self._some_file():
            folder, name, file = found
            self.world.put(folder, name, file)
            self.world.touch(folder, name)

    def _copy(self) -> None:
        if found := self._some_file():
            folder = self.chance.choice(list(self.world.folders))
            if name := self._free(folder):
                self._put(folder, name, found[2])

    def _old(self) -> None:
        """A file becomes again what it once was."""
        self._replace(*self.chance.choice(self._versions))

    def _column(self) -> None:
        """A file with a column more."""
        folder = self.chance.choice(list(self.world.folders))
        if name := self._free(folder):
            columns = ("k", "v", self.chance.choice(["x", "s", "y"]))
            self._put(folder, name, self._file(columns[:: self.chance.choice([1, -1])]))

    def _columns(self) -> None:
        """A file whose columns change, some of the usual ones missing, over the same values."""
        if found := self._some_file():
            folder, name, file = found
            others = self.chance.choice([("k", "v"), ("k", "x"), ("v", "x"), ("v", "k")])
            if len(file.columns) == 2:
                self._replace(folder, name, replace(file, columns=others))

    def _break(self) -> None:
        """A file that cannot be read; or, if there is one, its end."""
        found = next(
            ((d, n, f) for d, fs in self.world.folders.items() for n, f in fs.items() if f.broken),
            None,
        )
        folder, name, file = found or self._some_file() or ("", "", None)
        if file:
            self.world.put(folder, name, replace(file, broken=not file.broken))

    # --- wishes -----------------------------------------------------------------------------------

    def _apply(self, flows: Flows) -> None:
        self._revisions.append({flow: dict(parts) for flow, parts in flows.items()})
        self.world.apply(flows, self.styles)

    def _flows(self) -> dict[str, dict[str, Component]]:
        return {flow: dict(parts) for flow, parts in self.world.flows.items()}

    def _edit(self) -> None:
        """Another number in a condition, or another way to read."""
        flows = self._flows()
        flow = self.chance.choice(list(flows))
        name = self.chance.choice(list(flows[flow]))
        match flows[flow][name]:
            case Pick() | Total() | Join() | Grouped() | Fold() | Further() as c:
                flows[flow][name] = self._other_transform(c)
            case Read() as c if (
                self._is_readable(c.folder, self.world.folders[c.folder])
                and self.world.folders[c.folder]
            ):
                flows[flow][name] = self._other_read(c)
            case _:
                return
        self._apply(flows)

    def _edit_transform(self) -> None:
        flows = self._flows()
        known = [
            (f, n, c)
            for f, parts in flows.items()
            for n, c in parts.items()
            if isinstance(c, Pick | Total | Join | Grouped | Fold | Further)
        ]
        if known:
            flow, name, component = self.chance.choice(known)
            flows[flow][name] = self._other_transform(component)
            self._apply(flows)

    def _other_transform(
        self, component: Pick | Total | Join | Grouped | Fold | Further
    ) -> Transform:
        if isinstance(component, Join):
            return replace(component, outer=not component.outer)
        if isinstance(component, Further):
            return component.edited(self.chance.randint(0, 6))
        return replace(component, above=self.chance.randint(0, 6))

    def _other_read(self, read: Read) -> Read:
        match self.chance.randint(0, 2):
            case 0:
                return replace(read, null="" if read.null else str(self.chance.randint(0, 9)))
            case 1:
                return replace(read, grouped=not read.grouped)
            case _:
                return replace(read, declared=None if read.declared else ("k", "v"))

    def _restyle(self) -> None:
        """Other words for the same code."""
        self.styles |= {d: self.chance.randint(0, 3) for d in model.everything(self.world.flows)}
        self.world.apply(self.world.flows, self.styles)

    def _revert(self) -> None:
        """An earlier revision of everything."""
        flows = self.chance.choice(self._revisions)
        reads = [
            c for c in model.everything(flows).values() if isinstance(c, Read) and not c.declared
        ]
        if all(self.world.folders[c.folder] for c in reads):
            self._apply(flows)

    def _add(self) -> None:
        flows = self._flows()
        flow = self.chance.choice(list(flows))
        if len(model.everything(flows)) >= 14:
            return
        if self.chance.random() < 0.3:
            name = self.chance.choice(
                [n for n, c in flows[flow].items() if not isinstance(c, Copy)]
            )
            flows[flow][f"to_{name}"] = Copy(name)
        else:
            self._grow(flows, flow)
        self._apply(flows)

    def _drop(self) -> None:
        """A component that nothing reads goes, or a whole dataflow."""
        flows = self._flows()
        used = {
            d
            for dataset, c in model.everything(flows).items()
            for d in model.inputs_of(dataset, c).values()
        }
        free = [
            (f, n)
            for f, parts in flows.items()
            for n in parts
            if f"{f}.{n}" not in used and len(parts) > 3
        ]
        if "b" in flows and self.chance.random() < 0.4:
            del flows["b"]
        elif free:
            flow, name = self.chance.choice(free)
            del flows[flow][name]
        self._apply(flows)

    def _twin(self) -> None:
        """A second dataflow: equal to the first; or reading its datasets."""
        flows = self._flows()
        if "b" in flows:
            return
        if self.chance.random() < 0.6:
            flows["b"] = {n: c for n, c in flows["a"].items() if not isinstance(c, Copy)}
        else:
            flows["b"] = {self._name(): self._read()}
            for _ in range(2):
                self._grow(flows, "b")
        if len(model.everything(flows)) < 20 and self._can_be_read(flows):
            self._apply(flows)

    def _can_be_read(self, flows: Flows) -> bool:
        reads = [c for c in model.everything(flows).values() if isinstance(c, Read)]
        return all(c.declared or self.world.folders[c.folder] for c in reads)

    def _pause(self) -> None:
        here = sorted(self.world.paused & model.everything(self.world.flows).keys())
        if here and self.chance.random() < 0.7:
            self.world.pause(self.chance.choice(here), paused=False)
            return
        known = [
            d for d, c in model.everything(self.world.flows).items() if not isinstance(c, Read)
        ]
        if known:
            self.world.pause(self.chance.choice(known), paused=True)

    def _turn(self) -> None:
        self.world.turn()

    def _force(self) -> None:
        known = [
            d for d, c in model.everything(self.world.flows).items() if not isinstance(c, Copy)
        ]
        dataset = self.chance.choice(known)
        partitions = self.world.partitions(dataset)
        if partitions and self.chance.random() < 0.5:
            first, last = sorted(self.chance.choices(partitions, k=2))
            self.world.force_range(dataset, first, last)
            return
        self.world.force(dataset)

    def mend(self) -> Iterator[str]:
        """End every pause and every broken file."""
        for dataset in sorted(self.world.paused & model.everything(self.world.flows).keys()):
            self.world.pause(dataset, paused=False)
            yield f"resume {dataset}"
        for folder, files in self.world.folders.items():
            for name, file in list(files.items()):
                if file.broken:
                    self.world.put(folder, name, replace(file, broken=False))
                    yield f"mend {name}"


class Richer(Changes):
    """Draws windows and functions in PySpark, too."""

    def _transform(self, one: str, two: str) -> Transform:
        if self.chance.random() < 0.6:
            return super()._transform(one, two)
        if "." in one or self.chance.random() < 0.5:
            return Ranked(one, self.chance.choice("kkv"), self.chance.random() < 0.6)
        ways: tuple[Way, ...] = ("each", "calls", "all", "by")
        return Script(one, self.chance.choice(ways), self.chance.randint(0, 3))

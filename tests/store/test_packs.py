"""Packs beside a dataset of many small fragments: who reads by them, and what never depends on
them.

A driver that packs with pyarrow stands in Spark's place; the lake and the tables are real. Counted
over 2,000 fragments: files that a task which reads everything opens, and a reader of the table that
looks for one value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, combinations
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from controlplane.core import tree
from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Node
from controlplane.core.model import packs
from controlplane.core.model.projections import TableContent
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Fragment, Task
from controlplane.lake.lake_objects import LocalObjects
from controlplane.lake.publisher import DeltaPublisher
from controlplane.operations.context import Context
from controlplane.operations.projections import compaction, publish
from controlplane.operations.upkeep.collect import collect
from controlplane.operations.upkeep.fsck import fsck
from controlplane.operations.work import claims, reports, rescue
from controlplane.ports.store import Store, Tx
from controlplane.reconciler.packing import Packing
from controlplane.store import open_store, upgrade
from dataplane.contract.claims import CONTRACT, PackClaim, PackTask
from dataplane.contract.identity import EMPTY, Content, fragment_id
from dataplane.contract.results import FileEntry, TaskResult
from dataplane.contract.schemas import Schema, field_of, struct_of
from dataplane.fragments.statistics import file_entry
from dataplane.storage.lake import LocalLake
from tests.store.conftest import World
from tests.store.examples import d, revision, state
from tests.stores import new_store
from tests.unit.blueprint.texts import READ, component

DATASET = "shop.sales"
SCHEMA = struct_of(field_of(name, "long") for name in ("customer", "amount"))
FEW, MANY, VALUES = 140, 2_000, 4  # fragments, rows in each


def node(text: str) -> Node:
    made = revision(
        dataflow="d",
        text=component(text),
        files={},
        uids={"c": "u"},
        file="/f.yaml",
    )
    return compile_revisions([made]).require().nodes["d.c"]


NODE = node(f"{READ}\nsort_by: [customer]")
TOPIC = node("read: {connector: kafka, servers: 'b:9092', topic: orders, schema: id INT}")


@dataclass
class Place:
    """A dataset of small fragments, and a driver that can do nothing but pack."""

    store: Store
    namespace: str
    root: Path
    seq: int = 0

    @property
    def ctx(self) -> Context:
        return Context(self.store, self.namespace)

    def fragment(self, number: int, again: int = 0) -> Fragment:
        """One file of rows; `customer` takes all values in every one of them."""
        label, attempt = d(number).hex()[:32], f"{again}{number:031}"
        rows = [
            {"customer": (number * 7 + i * 500) % MANY, "amount": number + again}
            for i in range(VALUES)
        ]
        return self.write(rows, attempt, label, 1)

    def write(self, rows: list[dict[str, int]], attempt: str, label: str, into: int) -> Fragment:
        folder = (
            self.root
            / f"{self.namespace}/shop/sales/_frags/{attempt[:2]}/{attempt}/_fragment={label}"
        )
        folder.mkdir(parents=True, exist_ok=True)
        size = -(-len(rows) // into)
        for i in range(into):
            pq.write_table(
                pa.Table.from_pylist(rows[i * size : (i + 1) * size]), folder / f"part-{i}.parquet"
            )
        lake, paths = LocalLake(self.root), sorted(folder.iterdir())
        entries = tuple(
            file_entry(lake, str(p.relative_to(self.root)), p.stat().st_size, SCHEMA) for p in paths
        )
        content = reduce(
            Content.plus,
            (Content(1, r["customer"] * 977, r["amount"] * 31 + 1) for r in rows),
            EMPTY,
        )
        return Fragment(fragment_id(SCHEMA, content), SCHEMA, content, entries, DATASET, attempt)

    def commit(
        self, changes: Sequence[tuple[str, Fragment | None]], schema: Schema = SCHEMA
    ) -> State:
        """The next generation."""
        with self.store.begin(self.namespace) as tx:
            before = tx.states.newest("main", [DATASET]).get(DATASET)
            tx.traces.put([], [f for _, f in changes if f])
            edits = [(key, tree.Entry(key, f.id, f.content) if f else None) for key, f in changes]
            root = tree.edit(tx.nodes, before.root if before else tree.EMPTY_ROOT, edits)
            totals, seq = tree.totals(tx.nodes, root), (before.seq if before else 0) + 1
            made = replace(
                state(seq, DATASET), root=root, schema=schema, at=tx.now(), inputs={}, cut={}
            )
            made = replace(made, partitions=totals.partitions, rows=totals.content.rows)
            tx.states.commit(made, seq - 1)
        return made

    def due(self, of: State, topics: Container[str] = ()) -> compaction.Due:
        with self.store.read(self.namespace) as tx:
            return compaction.due(tx, of, NODE, topics)

    def ask(self, of: State, sources: Mapping[str, Node] = MappingProxyType({})) -> frozenset[str]:
        return compaction.ask(self.store, self.namespace, [of], {DATASET: NODE, **sources})

    def claim(self) -> PackClaim | None:
        found = claims.claim(self.ctx, "driver", CONTRACT, ["pack"], lake=self.root.as_uri())
        assert found is None or found["kind"] == "pack"
        return found

    def pack(self) -> int:
        """Carry out what was asked for; how many packs."""
        count = 0
        while claim := self.claim():
            results = [self.packed(claim, task) for task in claim["tasks"]]
            reports.report(
                self.ctx, "driver", claim["attempt"], results, lake=LocalObjects(self.root)
            )
            count += len(results)
        return count

    def packed(self, claim: PackClaim, task: PackTask) -> TaskResult:
        rows = [
            row for path in task["slots"][""] for row in pq.read_table(self.root / path).to_pylist()
        ]
        order = claim["job"]["sort_by"]
        found = self.write(
            sorted(rows, key=lambda r: [r[c] for c in order]),
            claim["attempt"],
            task["task"][:32],
            4,
        )
        return {
            "task": task["task"],
            "epoch": task["epoch"],
            "state": "done",
            "files": list(found.files),
            "content": list(found.content),
            "schema": SCHEMA,
        }

    def give_up(self) -> int:
        """How many packs were given up."""
        with self.store.begin(self.namespace) as tx:
            return compaction.give_up_all(tx)

    def files(self, of: State) -> list[str]:
        """Those that a task which reads the whole dataset opens."""
        with self.store.read(self.namespace) as tx:
            return [file["path"] for file in compaction.files(tx, of.root)]

    def rows(self, of: State) -> list[tuple[int, ...]]:
        found = (pq.read_table(self.root / path).to_pylist() for path in self.files(of))
        return sorted(tuple(row.values()) for rows in found for row in rows)

    def fsck(self) -> set[str]:
        return {f.code for f in fsck(self.store, self.namespace, LocalObjects(self.root))}


def keys(count: int) -> list[str]:
    """Of several leaves."""
    return (
        [f"f{100 + n}" for n in range(count)] if count < 900 else [f"{n:05}" for n in range(count)]
    )


def slots(task: Task) -> dict[str, list[str]]:
    assert "slots" in task.spec
    return task.spec["slots"]


def of_leaf(tx: Tx, root: bytes, key: str) -> int:
    """How many entries its leaf has."""
    return next(
        len(entries)
        for _, entries in tree.by_leaf(tx.nodes, root)
        if any(e.key == key for e in entries)
    )


@pytest.fixture
def place(world: World, tmp_path: Path) -> Place:
    return Place(world.store, world.namespace, tmp_path)


def filled(place: Place, count: int) -> tuple[State, State]:
    old = place.commit([(key, place.fragment(n)) for n, key in enumerate(keys(count))])
    new = place.commit([("z", place.fragment(count))])
    return old, new


def test_leaves_that_stay_as_they_are_are_packed_once(place: Place) -> None:
    old, new = filled(place, FEW)
    assert place.due(old).tasks == ()  # nobody knows yet what will stay
    asked = place.due(new).tasks
    assert len({t.key for t in asked}) == len(asked) > 0
    assert {t.priority for t in asked} == {packs.PRIORITY}
    rows, members = place.rows(new), sum(len(slots(t)[""]) for t in asked)
    assert len(place.files(new)) == FEW + 1
    assert place.ask(new) == {DATASET}
    assert place.pack() == len(asked)
    assert len(place.files(new)) == FEW + 1 - members + 4 * len(asked)
    assert place.rows(new) == rows
    assert place.due(new).tasks == ()
    assert place.ask(new) == frozenset()
    with place.store.read(place.namespace) as tx:
        assert tx.queue.demands("main", packs.name_of(DATASET)) == {}
        assert tx.states.newest("main")[DATASET] == new  # no root, no id of anything moved
    assert collect(place.store, place.namespace).tasks == len(asked) + 1  # tasks and their job
    assert place.fsck() == set()


def test_claims_hear_of_new_packs_once(place: Place) -> None:
    """A loop that woke itself with each pass would not wait while packs are made."""
    _, made = filled(place, FEW)
    notices: list[str] = []
    packing = Packing(
        place.store, place.namespace, "main", lambda: None, lambda: notices.append("new tasks")
    )
    assert [packing.step([made], {DATASET: NODE}, 0.0) for _ in range(3)] == [True] * 3
    assert notices == ["new tasks"]


def test_a_changed_member_is_read_at_once(place: Place) -> None:
    _, new = filled(place, FEW)
    place.ask(new)
    place.pack()
    rows = place.rows(new)
    newer = place.commit([("f103", place.fragment(3, again=5))])
    assert place.rows(newer) == sorted(
        [*(r for r in rows if r[1] != 3), *((r[0], 8) for r in rows if r[1] == 3)]
    )
    assert place.rows(new) == rows  # who reads the older generation still does


def test_packs_are_given_up_and_made_again(place: Place) -> None:
    _, new = filled(place, FEW)
    place.ask(new)
    made = place.pack()
    packed, rows = place.files(new), place.rows(new)
    lost = next(path for path in packed if "part-3" in path)
    (place.root / lost).unlink()
    assert place.fsck() == {"pack-gone"}
    assert place.give_up() == made
    assert place.fsck() == set()
    assert place.rows(new) == rows
    assert len(place.files(new)) == FEW + 1
    place.ask(new)
    assert place.pack() == made
    assert place.rows(new) == rows
    assert len(place.files(new)) == len(packed)


def test_packs_that_are_given_up_while_a_table_is_published_do_not_stay_in_it(place: Place) -> None:
    _, new = filled(place, FEW)
    place.ask(new)
    place.pack()

    class Overtaken(DeltaPublisher):
        def publish(self, table: TableContent, on_notice: Callable[[str], None] = print) -> int:
            version = super().publish(table, on_notice)
            place.give_up()
            return version

    published = [
        publish.publish(place.store, place.namespace, new, DeltaPublisher(str(place.root)))
    ]
    place.give_up()
    place.ask(new)
    place.pack()
    published.append(publish.publish(place.store, place.namespace, new, Overtaken(str(place.root))))
    assert publish.behind(place.store, place.namespace, [new]) == (new,)
    published.append(
        publish.publish(place.store, place.namespace, new, DeltaPublisher(str(place.root)))
    )
    assert publish.behind(place.store, place.namespace, [new]) == ()
    assert published == sorted(set(published))


def test_a_driver_that_dies_loses_nothing(place: Place) -> None:
    _, new = filled(place, FEW)
    rows = place.rows(new)
    place.ask(new)
    claim = place.claim()
    assert claim is not None
    with place.store.read(place.namespace) as tx:
        (attempt,) = tx.queue.attempts().values()
    place.packed(claim, claim["tasks"][0])
    assert not rescue.adopt(place.ctx, attempt, LocalObjects(place.root), reason="killed")
    assert place.rows(new) == rows
    assert not (place.root / claim["prefix"]).exists()


def test_rows_of_something_else_are_no_pack(place: Place) -> None:
    _, new = filled(place, FEW)
    rows = place.rows(new)
    place.ask(new)
    while claim := place.claim():
        results = [place.packed(claim, t) for t in claim["tasks"]]
        wrong = [{**r, "content": [r["content"][0], 1, 1]} for r in results]
        reports.report(place.ctx, "driver", claim["attempt"], wrong, lake=LocalObjects(place.root))
    assert place.rows(new) == rows
    assert len(place.files(new)) == FEW + 1


def test_what_has_been_left_alone_is_packed_whole(tmp_path: Path) -> None:
    clock = [1_000_000.0]
    store = new_store(lambda: clock[0])
    place = Place(store, "default", tmp_path)
    new = place.commit([(key, place.fragment(n)) for n, key in enumerate(keys(40))])
    assert place.due(new).tasks == ()
    clock[0] += packs.QUIET_S
    assert len(place.due(new).tasks) == 1


# --- tables -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, State]]:
    folder = tmp_path_factory.mktemp("big")
    upgrade(f"sqlite:///{folder}/db")
    store = open_store(f"sqlite:///{folder}/db")
    place = Place(store, "default", folder / "lake")
    yield place, filled(place, MANY - 1)[1]
    store.close()


def test_two_thousand_small_fragments(big: tuple[Place, State]) -> None:
    place, new = big
    publisher = DeltaPublisher(place.root.as_uri())
    try:
        counted(place, new, publisher)
        appended(place, publisher)
    finally:
        publisher.close()


Cost: TypeAlias = tuple[int, int]  # files, and their bytes


def counted(place: Place, new: State, publisher: DeltaPublisher) -> dict[str, tuple[Cost, Cost]]:
    """Before and after packing."""
    publish.publish(place.store, place.namespace, new, publisher)
    before, table_before, rows = cost(place, new), opened(place, 1200), place.rows(new)
    place.ask(new)
    place.pack()
    with place.store.read(place.namespace) as tx:
        assert publish.behind(place.store, place.namespace, [new]) == (new,)
        left = of_leaf(tx, new.root, "z")
    version = publish.publish(place.store, place.namespace, new, publisher)
    assert publish.behind(place.store, place.namespace, [new]) == ()
    after, table_after = cost(place, new), opened(place, 1200)
    assert (before[0], table_before[0]) == (MANY, MANY)
    # The leaf of the last commit, and four files of each other leaf
    assert after[0] <= left + 4 * 6
    assert table_after[0] <= left + 6  # of each pack the one file in which the value may be
    assert after[1] < before[1] / 3
    assert place.rows(new) == rows == published(place)
    assert set(data_changes(place, version)) == {False}
    return {"all": (before, after), "one value": (table_before, table_after)}


def appended(place: Place, publisher: DeltaPublisher) -> None:
    """What breaks up a pack is a commit of its own, which changes no rows; the generation only
    adds."""
    old = published(place)
    late = place.fragment(MANY + 1)
    newer = place.commit([("00000x", late)])  # into a leaf that is packed
    version = publish.publish(place.store, place.namespace, newer, publisher)
    assert set(data_changes(place, version - 1)) == {False}
    assert data_changes(place, version) == [True]
    assert published(place, version - 1) == old
    assert len(published(place)) == len(old) + VALUES


@dataclass
class Cut:
    """A publisher whose last answer gets lost: what it commits is there, and nobody hears of it."""

    inner: DeltaPublisher
    left: int

    def publish(self, table: TableContent, on_notice: Callable[[str], None] = print) -> int:
        version = self.inner.publish(table, on_notice)
        self.left -= 1
        if not self.left:
            raise OSError("no answer")
        return version

    def close(self) -> None: ...


def packed(home: Path) -> tuple[Place, State, DeltaPublisher]:
    """What is published has packs by now, which its table does not show yet."""
    place = Place(new_store(), "default", home)
    _, new = filled(place, FEW)
    publisher = DeltaPublisher(home.as_uri())
    publish.publish(place.store, place.namespace, new, publisher)
    place.ask(new)
    place.pack()
    return place, new, publisher


@pytest.mark.parametrize("answers", [1, 2], ids=["broken up", "whole"])
def test_a_table_never_goes_back_whatever_answer_is_lost(tmp_path: Path, answers: int) -> None:
    place, new, publisher = packed(tmp_path)
    publish.publish(place.store, place.namespace, new, publisher)
    newer = place.commit([("f103x", place.fragment(FEW + 1))])  # into a leaf that is packed
    with pytest.raises(OSError, match="no answer"):
        publish.publish(place.store, place.namespace, newer, Cut(publisher, answers))
    publish.note_failure(place.store, place.namespace, newer, "no answer")
    version = publish.publish(place.store, place.namespace, newer, publisher)
    publisher.close()
    rows = [len(published(place, v)) for v in range(version + 1)]
    assert rows == sorted(rows)
    assert published(place) == place.rows(newer)


def test_a_generation_only_adds_though_packs_came_in_before_it(tmp_path: Path) -> None:
    place, _, publisher = packed(tmp_path)
    newer = place.commit([("zz", place.fragment(FEW + 1))])
    version = publish.publish(place.store, place.namespace, newer, publisher)
    publisher.close()
    assert data_changes(place, version) == [True]  # what is added
    assert set(data_changes(place, version - 1)) == {False}
    assert published(place) == place.rows(newer)


def test_a_generation_only_adds_though_a_column_came_as_well(tmp_path: Path) -> None:
    """The publisher was behind: a file of the old columns came into a packed leaf before."""
    place, new, publisher = packed(tmp_path)
    before = publish.publish(place.store, place.namespace, new, publisher)
    place.commit([("f103x", place.fragment(FEW + 1))])
    wide = struct_of([*SCHEMA["fields"], field_of("extra", "long")])
    late = place.fragment(FEW + 2)
    late = replace(late, id=fragment_id(wide, late.content), schema=wide)
    newer = place.commit([("zz", late)], wide)
    version = publish.publish(place.store, place.namespace, newer, publisher)
    publisher.close()
    assert data_changes(place, version) == [True, True], "two fragments are added"
    assert {change for v in range(before + 1, version) for change in data_changes(place, v)} == {
        False
    }


def test_a_generation_of_equal_rows_in_other_files_changes_no_rows(tmp_path: Path) -> None:
    """As after the repair of lost files."""
    place, _, publisher = packed(tmp_path)
    version = publish.publish(place.store, place.namespace, place.commit([]), publisher)
    publisher.close()
    assert set(data_changes(place, version)) == {False}


def cost(place: Place, of: State) -> Cost:
    found = place.files(of)
    return len(found), sum((place.root / path).stat().st_size for path in found)


def table(place: Place, version: int | None = None) -> DeltaTable:
    return DeltaTable(str(place.root / "default/shop/sales"), version)


def opened(place: Place, customer: int) -> Cost:
    """Files, and their bytes, that may hold this value by the table's statistics."""
    actions = pa.table(table(place).get_add_actions(flatten=True)).to_pylist()
    held = [a for a in actions if a["min.customer"] <= customer <= a["max.customer"]]
    return len(held), sum(a["size_bytes"] for a in held)


def published(place: Place, version: int | None = None) -> list[tuple[int, ...]]:
    return sorted(
        tuple(row.values()) for row in table(place, version).to_pyarrow_table().to_pylist()
    )


def data_changes(place: Place, version: int) -> list[bool]:
    log = place.root / f"{place.namespace}/shop/sales/_delta_log/{version:020}.json"
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    return [e[kind]["dataChange"] for e in entries for kind in ("add", "remove") if kind in e]


def test_rolled_up_slices_move_no_file_and_are_packed(place: Place) -> None:
    """A fragment of many files takes the place of the fragments that it has the files of."""
    slices = [place.fragment(n) for n in range(packs.FEWEST)]
    content = reduce(Content.plus, (part.content for part in slices), EMPTY)
    files = tuple(file for part in slices for file in part.files)
    united = replace(slices[-1], id=fragment_id(SCHEMA, content), content=content, files=files)
    names = [f"{n:012}" for n in range(1, packs.FEWEST + 1)]
    publisher = DeltaPublisher(str(place.root))
    old = place.commit(list(zip(names, slices, strict=True)))
    version = publish.publish(place.store, place.namespace, old, publisher)
    rows = place.rows(old)
    removed: list[tuple[str, Fragment | None]] = [(name, None) for name in names]
    new = place.commit(sorted([*removed, (f"{names[0]}-{names[-1]}", united)]))
    assert publish.publish(place.store, place.namespace, new, publisher) == version
    assert (new.partitions, place.rows(new)) == (1, rows)
    quiet = replace(new, at=new.at - packs.QUIET_S, cut={TOPIC.dataset: d(1)})
    assert place.due(quiet).tasks == (), "rows of files have no spans"
    [task] = place.due(quiet, {TOPIC.dataset}).tasks
    assert slots(task)[""] == [united.id.hex()]
    place.ask(quiet, {TOPIC.dataset: TOPIC})
    assert place.pack() == 1
    assert (len(place.files(new)), place.rows(new)) == (4, rows)
    assert place.fsck() == set()


def entries_of(parts: Mapping[str, Fragment]) -> list[tree.Entry]:
    return [tree.Entry(key, part.id, part.content) for key, part in sorted(parts.items())]


def test_a_span_of_many_small_files_is_a_pack_of_its_own(place: Place) -> None:
    """The pack of the first span stays once the leaf has a second one."""
    file: FileEntry = {"path": "f", "size": 1, "rows": 1, "stats": {}}
    spans = {
        f"{n:012}-{n + 99:012}": replace(place.fragment(n), files=(file,) * packs.FEWEST)
        for n in (1, 101)
    }
    first = dict(list(spans.items())[:1])
    by_id = {part.id: part for part in spans.values()}
    [own] = packs.packs_of(entries_of(first), by_id)
    assert own.members == (next(iter(first.values())).id,)
    assert own in packs.packs_of(entries_of(spans), by_id)
    large: FileEntry = {**file, "size": packs.SMALL_BYTES + 1}
    key, span = next(iter(spans.items()))
    parts = {key: replace(span, files=(large,) * packs.FEWEST)}
    assert packs.packs_of(entries_of(parts), {span.id: parts[key]}) == ()


@pytest.mark.parametrize("others", [1, packs.FEWEST])
def test_a_span_and_other_partitions_with_equal_rows_are_all_laid_out(
    place: Place, others: int
) -> None:
    """Whichever packs are there: some are made before the others."""
    file: FileEntry = {"path": "f", "size": 1, "rows": 1, "stats": {}}
    span = replace(place.fragment(1), files=(file,) * packs.FEWEST)
    parts = {f"{1:012}-{100:012}": span, f"{101:012}": span}
    parts |= {f"{102 + n:012}": place.fragment(2 + n) for n in range(others)}
    by_id = {part.id: part for part in parts.values()}
    entries = entries_of(parts)
    made = packs.packs_of(entries, by_id)
    for there in chain.from_iterable(combinations(made, n) for n in range(len(made) + 1)):
        stored = by_id | {p.id: replace(span, id=p.id, content=p.content) for p in there}
        rows = sum(part.content.rows for part in packs.laid_out(entries, there, stored))
        assert rows == sum(part.content.rows for part in parts.values())


def test_packs_of_other_tables_are_those_of_earlier_versions(place: Place) -> None:
    """Fragments with many files count as one each, small or not."""
    file: FileEntry = {"path": "f", "size": 1_000, "rows": 1, "stats": {}}
    large: FileEntry = {**file, "size": packs.SMALL_BYTES}
    parts = {f"k{n:02}": place.fragment(n) for n in range(packs.FEWEST - 1)}
    parts["many"] = replace(place.fragment(98), files=(file,) * packs.FEWEST)
    parts["wide"] = replace(place.fragment(99), files=(large,) * packs.FEWEST)
    by_id = {part.id: part for part in parts.values()}
    few = {key: part for key, part in parts.items() if key > "k00"}
    assert packs.packs_of(entries_of(few), by_id) == ()
    [pack] = packs.packs_of(entries_of(parts), by_id)
    assert pack.id.hex() == "555374d236392f82b99629f8631765600610222627a8b23b99a6282c0d7d0bee"
    assert len(pack.members) == packs.FEWEST


def test_a_span_with_files_of_its_own_is_a_commit_of_layout(place: Place) -> None:
    """As where two slices have equal rows, so that the span is computed. The next slice is new."""
    slices = [place.fragment(n) for n in range(2)]
    names = [f"{n:012}" for n in (1, 2, 3)]
    publisher = DeltaPublisher(str(place.root))
    old = place.commit(list(zip(names, slices, strict=False)))
    version = publish.publish(place.store, place.namespace, old, publisher)
    paths = [file["path"] for part in slices for file in part.files]
    rows = [row for path in paths for row in pq.read_table(place.root / path).to_pylist()]
    span = place.write(rows, f"{9:032}", d(9).hex()[:32], 1)
    changes: list[tuple[str, Fragment | None]] = [(name, None) for name in names[:2]]
    changes += [(f"{names[0]}-{names[1]}", span), (names[2], place.fragment(3))]
    new = place.commit(sorted(changes))
    assert publish.publish(place.store, place.namespace, new, publisher) == version + 2
    assert data_changes(place, version + 1) == [False, False, False]
    assert data_changes(place, version + 2) == [True]
    assert len(place.files(new)) == 2

"""A reader of Delta tables sees what a branch has of its own, and main's table never changes by a
byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from controlplane.core import tree
from controlplane.core.model.states import State
from controlplane.core.model.table_paths import table_path
from controlplane.core.model.tasks import Fragment
from controlplane.lake.lake_objects import LocalObjects
from controlplane.lake.publisher import DeltaPublisher
from controlplane.operations.projections import branch_tables, publish
from tests.store.examples import branch, state
from tests.stores import new_store
from tests.unit.lake.tables import READERS, Lake, Rows, struct

A, NAME = struct(a="long"), "flow.daily"


@dataclass
class Place:
    """A store and a lake with real files."""

    root: Path

    def __post_init__(self) -> None:
        self.store, self.lake = new_store(), Lake(self.root)
        self.objects, self.publisher = LocalObjects(self.root), DeltaPublisher(self.root.as_uri())
        with self.store.begin() as tx:
            tx.branches.create(branch(publish=True))

    def fragment(self, *values: int) -> Fragment:
        return self.lake.fragment(A, [{"a": value} for value in values])

    def commit(self, of: str, seq: int, *fragments: Fragment) -> State:
        """A state of these partitions."""
        with self.store.begin() as tx:
            tx.traces.put([], fragments)
            root = tree.build(
                tx.nodes, (tree.Entry(f"{n}", f.id, f.content) for n, f in enumerate(fragments))
            )
            made = replace(state(seq, NAME, branch=of), root=root, schema=A, generation=seq)
            tx.states.commit(made, seq - 1)
        return made

    def follow(self, made: State) -> None:
        if made.branch == "main":
            publish.publish(self.store, "default", made, self.publisher)
        else:
            assert branch_tables.follow(self.store, "default", made, self.publisher, self.objects)

    def folder(self, of: str) -> Path:
        return self.root / table_path("default", of, NAME)

    def read(self, of: str) -> list[int]:
        table = DeltaTable(str(self.folder(of)))
        found = pa.table(QueryBuilder().register("t", table).execute("SELECT a FROM t"))
        return sorted(found.column("a").to_pylist())

    def log_of_main(self) -> dict[str, bytes]:
        return {
            path.name: path.read_bytes() for path in (self.folder("main") / "_delta_log").iterdir()
        }


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.publisher.close()


def rows(*values: int) -> Rows:
    return [{"a": value} for value in values]


def test_a_branch_is_read_beside_main_and_goes_without_a_trace(place: Place) -> None:
    one, two, three = place.fragment(1), place.fragment(2), place.fragment(3)
    place.follow(place.commit("main", 1, one, two))
    before = place.log_of_main()
    place.follow(place.commit("dev", 2, one, three))
    assert place.read("dev") == [1, 3]
    place.follow(place.commit("dev", 3, one, three, three))
    assert place.read("dev") == [1, 3, 3]
    assert {read.__name__: read(str(place.folder("main"))) for read in READERS} == {
        read.__name__: rows(1, 2) for read in READERS
    }
    with place.store.begin() as tx:
        tx.branches.drop("dev")
    (left,) = branch_tables.left_over(place.store, "default")
    branch_tables.delete(place.store, "default", left, place.objects)
    assert not place.folder("dev").exists()
    assert place.log_of_main() == before
    assert branch_tables.left_over(place.store, "default") == ()


def test_after_a_merge_mains_table_has_the_files_that_the_branch_named(place: Place) -> None:
    one, two = place.fragment(1), place.fragment(2)
    place.follow(place.commit("main", 1, one))
    place.follow(place.commit("dev", 2, two))
    place.follow(place.commit("main", 2, two))
    assert (place.read("main"), place.read("dev")) == ([2], [2])
    with place.store.begin() as tx:
        tx.branches.share("dev", [NAME])
    (left,) = branch_tables.left_over(place.store, "default")
    branch_tables.delete(place.store, "default", left, place.objects)
    assert place.read("main") == [2]

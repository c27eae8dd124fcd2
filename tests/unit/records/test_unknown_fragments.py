"""A partition that names a fragment which the database lacks is told where its rows are asked for,
and no other is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.core import tree
from controlplane.core.model.tasks import Fragment
from controlplane.core.tree import Entry
from tests.store.examples import state
from tests.unit.records.conftest import order
from tests.unit.records.world import NOON, ORDERS, RECORDS, SCHEMA, RecordWorld, Served, served

CHANGES = "/v1/branches/main/datasets/shop.orders/changes.ndjson"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Served]:
    """`a` can be read. `b`, of the second generation, cannot."""
    world = RecordWorld(tmp_path)
    known, lost = world.fragment([order(1)]), world.fragment([order(2)])
    world.commit({"a": known})
    with world.store.begin() as tx:
        root = tree.build(tx.nodes, [_entry("a", known), _entry("b", lost)])
        tx.states.commit(
            state(2, ORDERS, root=root, schema=SCHEMA, at=NOON, rows=2, partitions=2), 1
        )
    with served(world) as place:
        yield place


def _entry(key: str, fragment: Fragment) -> Entry:
    return Entry(key, fragment.id, fragment.content)


@pytest.mark.parametrize("path", [RECORDS, f"{RECORDS}?partition=b", f"{CHANGES}?since=1"])
def test_rows_are_refused_with_the_partition_and_what_to_do(place: Served, path: str) -> None:
    with place.http() as http:
        answer = http.get(path)
    assert (answer.status_code, answer.json()["type"]) == (500, "urn:headgate:corrupt-node")
    assert "partition 'b' names fragment" in answer.json()["detail"]
    assert "headgate fsck" in answer.json()["detail"]


@pytest.mark.parametrize("path", [f"{RECORDS}?partition=a", f"{RECORDS}?generation=1"])
def test_what_is_whole_is_read(place: Served, path: str) -> None:
    with place.http() as http:
        assert [
            row["k"] for row in http.get(path, headers={"Accept": "application/json"}).json()
        ] == [1]

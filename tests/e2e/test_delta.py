"""An external Delta table as a source, and another as a copy: after each change all are equal, by
the least work.

Steps of one story, told to one service.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from controlplane.client import Headgate
from controlplane.core.model.answers import DatasetAnswer
from tests.e2e.conftest import closing
from tests.e2e.foreign_delta import ForeignTable
from tests.e2e.served import Served
from tests.e2e.workspace import Service, Workspace
from tests.there import there

BLUEPRINT = """\
dataflow: lake
components:
  events:
    read: {connector: delta, path: shown, refresh: manual, schema_change: sync}
  doubled:
    transform: {sql: "SELECT *, id * :times AS twice FROM events", params: {times: 2}}
  total:
    transform: {sql: "SELECT count(*) AS n, sum(id) AS ids FROM events"}
  copy:
    write: {connector: delta, from: events, path: out/events}
"""
FEED = """\
dataflow: feed
components:
  changes:
    read: {connector: delta, path: shown, changes: true, refresh: manual}
  mirror:
    cdc:
      from: changes
      keys: [id]
      sequence_by: [_commit_version]
      deletes: _change_type IN ('delete', 'update_preimage')
      on_tie: upsert
      columns: [day, s, extra]
      buckets: 2
"""
Rows = list[dict[str, Any]]


class Story(Served):
    """The table, a service that reads it, and the work done so far."""

    def __init__(
        self, table: ForeignTable, workspace: Workspace, service: Service, api: Headgate
    ) -> None:
        super().__init__(workspace, service, api, "lake", reads=1)
        self.table = table

    def refreshed(self, code: int = 0) -> DatasetAnswer:
        self.refresh(code=code)
        return self.events()

    def events(self) -> DatasetAnswer:
        return self.api.dataset("lake.events")

    def values(self, name: str = "events") -> Rows:
        return [without_nulls(row) for row in self.rows(name)]

    def copy(self) -> Rows:
        """The rows of the table that is written to."""
        table = DeltaTable(str(self.workspace.folder / "out" / "events"))
        rows = table.to_pyarrow_table().to_pylist()
        return [without_nulls(json.loads(json.dumps(row, default=str))) for row in rows]

    def assert_equals(self, wanted: Rows) -> None:
        assert sorted(self.values(), key=repr_of) == sorted(map(plain, wanted), key=repr_of)
        assert [r["n"] for r in self.values("total")] == [len(wanted)]
        assert sorted(self.copy(), key=repr_of) == sorted(map(plain, wanted), key=repr_of)
        # bound, beside Delta's own parser
        assert all(row["twice"] == 2 * row["id"] for row in self.values("doubled"))
        doubled = [{k: v for k, v in row.items() if k != "twice"} for row in self.values("doubled")]
        assert sorted(doubled, key=repr_of) == sorted(map(plain, wanted), key=repr_of)


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row of Spark's JSON as the API gives it: decimals are texts."""
    return {k: f"{v:.2f}" if k == "extra" else v for k, v in row.items()}


def without_nulls(value: Any) -> Any:
    return {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value


def repr_of(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


@pytest.fixture(scope="module")
def story(module_folder: Path) -> Iterator[Story]:
    table = ForeignTable.make(module_folder)
    table.show("created")
    with closing(Workspace(module_folder)) as workspace:
        workspace.write("lake.yaml", BLUEPRINT)
        with workspace.serving() as service:
            workspace.ask("apply", "lake.yaml", "--wait")
            with service.client() as api:
                yield Story(table, workspace, service, api)


def test_an_empty_table_is_an_empty_dataset(story: Story) -> None:
    assert story.events()["partitions"] == 0
    assert story.values() == []
    story.work()


@pytest.mark.parametrize(
    ("step", "parsed", "derived"),
    [
        ("filled", 3, 3 + 1),  # a file per day; each child partition by partition, and the total
        ("corrected", 1, 1 + 1),  # a deletion vector takes rows out of one file
        ("late", 1, 1 + 1),
        ("withdrawn", 0, 0 + 1),
        ("renamed", 3, 3 + 1),  # other columns are other rows
        # The same rows in another file: who reads all of them has nothing to do
        ("compacted", 1, 1 + 0),
        # The files that are there lack the column: nothing of them is parsed again
        ("widened", 1, 3 + 1),
    ],
)
def test_after_each_change_the_dataset_is_the_table(
    story: Story, step: str, parsed: int, derived: int
) -> None:
    wanted = story.table.show(step)
    state = story.refreshed()
    assert state["state"] == "up_to_date", state
    story.assert_equals(wanted)
    assert story.work() == parsed + derived
    story.refreshed()
    assert story.work() == 0


def test_its_change_feed_gives_the_same_rows(story: Story) -> None:
    """Deletion vectors, renamed and added columns included."""
    story.workspace.write("feed.yaml", FEED)
    story.workspace.ask("apply", "feed.yaml", "--wait")
    with story.api.records("feed.mirror") as parts:
        mirror = [without_nulls(row) for row in json.loads(b"".join(parts))]
    columns = ("id", "day", "s", "extra")
    wanted = [{k: row[k] for k in columns if k in row} for row in story.values()]
    assert sorted(mirror, key=repr_of) == sorted(wanted, key=repr_of)
    story.work()


def test_a_table_that_is_away_loses_nothing(story: Story) -> None:
    wanted, away = story.table.show("widened"), story.table.shown.with_name("away")
    story.table.shown.rename(away)
    assert story.refreshed(code=1)["state"] == "failed"
    assert there(story.api.why("lake.events")["error"])["condition"] == "path-not-found"
    story.assert_equals(wanted)
    away.rename(story.table.shown)
    assert story.refreshed()["state"] == "up_to_date"
    assert story.work() == 0


def test_an_emptied_table_is_an_empty_dataset(story: Story) -> None:
    story.table.show("emptied")
    assert story.refreshed()["partitions"] == 0
    story.assert_equals([])
    assert story.work() == 0, "the total of no rows is known from the beginning"

"""The blueprint of docs/iceberg-sources.md: after each change of the table the dataset is the
table, by the least work. And tables of another Headgate, through its catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import StringType

from dataplane.connectors.iceberg.iceberg_listing import partitions
from dataplane.contract.jobs import ListJob
from dataplane.task_failures import TaskFailure
from tests.e2e.conftest import closing
from tests.e2e.served import Served
from tests.e2e.workspace import Workspace
from tests.iceberg_tables import NAME, IcebergTables, data_paths, delete_rows, rows_of
from tests.unit.iceberg.reading import rows_of_job
from tests.unit.listing.location import list_job
from tests.unit.records.conftest import order
from tests.unit.records.world import RecordWorld, served

DOCS = Path(__file__).parents[2] / "docs" / "iceberg-sources.md"


def blueprint(tables: IcebergTables) -> str:
    page = DOCS.read_text(encoding="utf-8")
    (text,) = re.findall(r"^```yaml\n(dataflow: .*?)^```", page, re.DOTALL | re.MULTILINE)
    return str(text).replace("sqlite:////data/catalog.db", tables.uri)


@pytest.fixture(scope="module")
def tables(module_folder: Path) -> Iterator[IcebergTables]:
    opened = IcebergTables(module_folder)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def story(module_folder: Path, tables: IcebergTables) -> Iterator[Served]:
    tables.create(rows_of(1, 2))
    with closing(Workspace(module_folder)) as workspace:
        workspace.write("lake.yaml", blueprint(tables))
        with workspace.serving() as service:
            workspace.ask("apply", "lake.yaml", "--wait")
            with service.client() as api:
                yield Served(workspace, service, api, "lake", reads=1)


def without_nulls(rows: list[dict[str, Any]]) -> list[str]:
    """A column that no file has is NULL in the table, and none of the dataset."""
    return sorted(str({name: v for name, v in row.items() if v is not None}) for row in rows)


def test_after_each_change_the_dataset_is_the_table(story: Served, tables: IcebergTables) -> None:
    table = tables.catalog.load_table(NAME)

    def assert_equal(work: int) -> None:
        expected = table.refresh().scan().to_arrow().to_pylist()
        assert without_nulls(story.rows("orders")) == without_nulls(expected)
        ids = [row["id"] for row in expected]
        assert story.rows("totals") == [{"n": len(ids), "ids": sum(ids)}]
        assert story.work() == work

    assert_equal(1 + 1)
    table.append(rows_of(3))  # late
    story.refresh()
    assert_equal(1 + 1)
    table.overwrite(rows_of(4, 5), "id = 3")  # corrected
    story.refresh()
    assert_equal(1 + 1)
    delete_rows(table, {data_paths(table)[0]: [0]})
    story.refresh()
    assert_equal(2 + 1)  # the table has no partitions: deletes may apply to each older file
    with table.update_schema() as update:
        update.add_column("more", StringType())
    table.append(rows_of(id=[6], name=["n6"], more=["m6"]))
    story.refresh()
    assert_equal(1 + 1)  # the files that are there lack the column
    with table.update_schema() as update:
        update.rename_column("name", "label")
    story.refresh()
    assert_equal(3 + 1)
    table.delete("id >= 4")  # withdrawn
    story.refresh()
    assert_equal(0 + 1)
    story.refresh()
    assert story.work() == 0


# --- another Headgate ---------------------------------------------------------------------------


def rest_job(url: str, token: str, **settings: Any) -> ListJob:
    catalogue = {"catalog.uri": f"{url}/iceberg", "catalog.warehouse": "main"}
    named = {**catalogue, "catalog.token": token, "table": "shop.orders", **settings}
    return list_job("iceberg:shop.orders", connector="iceberg", settings=named)


def test_tables_of_another_headgate_are_read(tmp_path: Path) -> None:
    world = RecordWorld(tmp_path)
    world.commit({"day=2013-01-01": [order(1)], "day=2013-01-03": [order(3)]})
    with served(world) as place:
        job = rest_job(place.url, place.token)
        assert sorted(row["k"] for row in rows_of_job(job)) == [1, 3]
        before = {p["key"]: p["source"] for p in partitions(job)}
        world.commit({f"day=2013-01-0{n}": [order(n)] for n in (1, 2, 3)})
        after = {p["key"]: p["source"] for p in partitions(job)}
        assert before.items() < after.items()
        first = rest_job(place.url, place.token, snapshot=1)
        assert sorted(row["k"] for row in rows_of_job(first)) == [1, 3]
        with pytest.raises(TaskFailure, match="no Iceberg table") as missing:
            list(partitions(rest_job(place.url, place.token, table="shop.none")))
        assert missing.value.condition == "path-not-found"
        with pytest.raises(TaskFailure, match="give a login") as refused:
            list(partitions(rest_job(place.url, "hg_wrong")))
        assert refused.value.condition == "permission-denied"

"""The story of a dataflow whose sources and whose lake are on Azure, or on Google Cloud Storage: a
crash at its first commit, nothing to do, a late file.

Credentials come in a folder, as a mounted secret does, and are found nowhere else afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import obstore
import pytest
from deltalake import DeltaTable

from controlplane.lake.lake_objects import storage_options
from tests.e2e.conftest import closing, lake_in
from tests.e2e.workspace import Run, Workspace
from tests.servers.azure import Azure
from tests.servers.gcs import Gcs

SOURCE = """\
dataflow: shop
components:
  sales:
    read:
      connector: files
      path: {place}/sales/*.csv
      format: csv
      options: {{header: true}}
      schema: "day INT, amount INT"
"""
DERIVED = """\
  large:
    transform: {{sql: "SELECT * FROM sales WHERE amount > 10", inputs: {{sales: each}}}}
  total:
    transform: {{sql: "SELECT count(*) AS n, sum(amount) AS amount FROM sales"}}
"""
DAYS = (1, 2, 3)


@dataclass
class Story:
    cloud: Azure | Gcs
    workspace: Workspace
    place: str

    def add(self, day: int) -> None:
        store = self.cloud.objects(f"{self.place}/sales")
        obstore.put(store, f"{day}.csv", f"day,amount\n{day},{day}\n{day},100\n".encode())

    def assert_true(self, run: Run, *days: int) -> None:
        run.assert_up_to_date()
        assert self.rows("large") == [{"day": day, "amount": 100} for day in days]
        assert self.rows("total") == [{"n": 2 * len(days), "amount": sum(days) + 100 * len(days)}]

    def rows(self, dataset: str) -> list[dict[str, int]]:
        """As somebody else reads the table, by the address that `status` shows."""
        (told,) = self.workspace.ask("status", f"shop.{dataset}")["dataflows"][0]["datasets"]
        table = DeltaTable(
            told["table"], storage_options=storage_options(told["table"], self.cloud.environment())
        )
        found: list[dict[str, int]] = table.to_pyarrow_table().to_pylist()
        return sorted(found, key=repr)


CLOUDS = [
    pytest.param(Azure, id="azure", marks=lake_in("azure")),
    pytest.param(Gcs, id="gcs", marks=lake_in("gcs")),
]


@pytest.fixture(scope="module", params=CLOUDS)
def cloud(request: pytest.FixtureRequest) -> Iterator[Azure | Gcs]:
    server = request.param().start()
    patch = pytest.MonkeyPatch()
    for name, value in server.environment().items():
        patch.setenv(name, value)
    yield server
    patch.undo()
    server.remove()


@pytest.fixture(scope="module")
def story(cloud: Azure | Gcs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("on-clouds")
    workspace = Workspace(folder / "shop")
    (folder / "secrets").mkdir()
    (folder / "events").mkdir()
    log = {"spark.eventLog.dir": str(folder / "events"), "spark.eventLog.compress": "false"}
    conf = {"spark.eventLog.enabled": "true", **log}
    workspace.environment |= cloud.environment() | {
        "HEADGATE_LAKE": f"{cloud.lake}/of-headgate",
        "HEADGATE_LAKE_CREDENTIALS": str(folder / "secrets"),
        "HEADGATE_SPARK_CONF": json.dumps(conf),
    }
    for name in cloud.secrets:
        (folder / "secrets" / name).write_text(workspace.environment.pop(name) + "\n")
    found = Story(cloud, workspace, f"{cloud.lake}/of-others")
    workspace.write("shop.yaml", (SOURCE + DERIVED).format(place=found.place))
    with closing(workspace):
        yield found


def test_killed_at_a_commit_it_goes_on_and_does_nothing_twice(story: Story) -> None:
    for day in DAYS[:2]:
        story.add(day)
    story.workspace.dies("after-commit", "shop.yaml")
    run = story.workspace.run("shop.yaml")
    story.assert_true(run, *DAYS[:2])
    counts = story.workspace.counted()
    assert counts.get("task.executed", 0) + counts.get("task.recovered", 0) == 2 + 2 + 1


def test_nothing_changed(story: Story) -> None:
    run = story.workspace.run("shop.yaml")
    run.assert_idle()
    assert run.tasks == {}


def test_a_late_file(story: Story) -> None:
    story.add(DAYS[2])
    run = story.workspace.run("shop.yaml")
    assert run.executed == 1 + 1 + 1  # Google's client repeats no batch: a lost one costs a retry
    story.assert_true(run, *DAYS)


def test_its_files_are_all_there_and_nothing_else_is_left(story: Story) -> None:
    assert story.workspace.ask("fsck", "--files")["findings"] == []
    known = {attempt for (attempt,) in story.workspace.query("SELECT attempt FROM fragments")}
    listed = obstore.list(story.cloud.objects(f"{story.cloud.lake}/of-headgate")).collect()
    attempts = {
        parts[5]
        for found in listed
        if len(parts := found["path"].split("/")) > 5 and parts[3] == "_frags"
    }
    assert attempts == known


def test_no_secret_is_written_down(story: Story) -> None:
    top = story.workspace.folder.parent
    kept = [f for folder in ("shop", "events") for f in (top / folder).rglob("*") if f.is_file()]
    assert any(f.parent.name == "logs" for f in kept)
    # In plain words
    assert any(b"spark.hadoop.fs." in f.read_bytes() for f in kept if top / "events" in f.parents)
    assert [f for f in kept if story.cloud.secret.encode() in f.read_bytes()] == []


def test_a_lake_that_is_no_lake_is_told_at_once(story: Story) -> None:
    lake = f"{story.cloud.nowhere}/x"
    with story.workspace.start(
        "run", "shop.yaml", "--home", story.workspace.home, HEADGATE_LAKE=lake
    ) as process:
        out, err = process.communicate()
    assert (process.returncode, out) == (1, b"")
    assert f"{lake}: there is no such".encode() in err


def test_sources_are_read_where_the_lake_is_elsewhere(story: Story, tmp_path: Path) -> None:
    """Spark has started without the jars, and gets them when it is to read there."""
    told = {k: v for k, v in story.workspace.environment.items() if k != "HEADGATE_LAKE"}
    with closing(Workspace(tmp_path, environment=told)) as local:
        local.write("shop.yaml", SOURCE.format(place=story.place))
        run = local.run("shop.yaml")
        run.assert_up_to_date()
        assert run.datasets["sales"]["rows"] == 2 * len(DAYS)
        assert DeltaTable(
            local.lake / "default" / "shop" / "sales"
        ).to_pyarrow_table().num_rows == 2 * len(DAYS)

"""The example with a DataSource class: a partition for each year, read once; and at each run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.e2e.conftest import ways
from tests.e2e.workspace import Workspace
from tests.slices import in_turn

# Takes turns with tickets: what a class reads is asked of spark/test_spark_source.
pytestmark = in_turn(1, 2)

EXAMPLE = Path(__file__).parents[2] / "blueprints" / "calendar"


@pytest.mark.parametrize("workspace", ways(15), indirect=True)
def test_partitions_are_read_as_declared(workspace: Workspace) -> None:
    shutil.copytree(EXAMPLE, workspace.folder, dirs_exist_ok=True)
    assert workspace.run("calendar.yaml").executed == 2 + 1
    workspace.run("calendar.yaml").assert_idle()
    workspace.edit("calendar.yaml", ('"2023", "2024"', '"2023", "2024", "2025"'))
    assert workspace.run("calendar.yaml").executed == 1 + 1
    text = workspace.call(
        "records", "calendar.weekdays", "--format", "json", "--home", workspace.home
    )
    assert sum(row["days"] for row in json.loads(text)) == 365 + 366 + 365
    workspace.edit("calendar.yaml", ("version: options", "version: each run"))
    assert workspace.run("calendar.yaml").executed == 3, "equal rows change nothing downstream"
    assert workspace.run("calendar.yaml").executed == 3

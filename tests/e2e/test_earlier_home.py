"""A home that an earlier version made still opens, and nothing of it is computed again.

`homes/VERSION.tar.gz` holds the blueprint, its data, the copy and the home (without its token) after a run of the last
commit that had this version of the database. They lie in /tmp/headgate-earlier-home, since paths of sources are part of
what is remembered.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.store import HEAD
from tests.e2e.workspace import Workspace

HOMES = Path(__file__).with_name("homes")
PLACE = Path("/tmp/headgate-earlier-home")  # where it was made


@pytest.fixture(params=sorted(path.name.removesuffix(".tar.gz") for path in HOMES.iterdir()))
def earlier(request: pytest.FixtureRequest) -> Iterator[Workspace]:
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    with tarfile.open(HOMES / f"{request.param}.tar.gz") as archive:
        archive.extractall(PLACE, filter="data")
    workspace = Workspace(PLACE)
    yield workspace
    workspace.end_all()
    shutil.rmtree(PLACE)


def test_nothing_of_it_is_computed_again(earlier: Workspace) -> None:
    before = earlier.query("SELECT dataset, hex(root) FROM states ORDER BY dataset, seq")
    found = earlier.run("flow.yaml")
    found.assert_up_to_date()
    assert found.tasks == {}
    assert earlier.query("SELECT version_num FROM alembic_version") == [(HEAD,)]
    assert earlier.query("SELECT dataset, hex(root) FROM states ORDER BY dataset, seq") == before
    assert [json.loads(file.read_text()) for file in (PLACE / "out").rglob("part-*.json")] == [{"n": 3, "v": 130}]


def test_it_goes_on_from_there(earlier: Workspace) -> None:
    earlier.write("in/c.csv", "k,v\n2,1\n")
    found = earlier.run("flow.yaml")
    found.assert_up_to_date()
    assert (
        found.tasks["executed"] == 6
    )  # the new file, its rows doubled, one key of its index, key 2, the total, Python's

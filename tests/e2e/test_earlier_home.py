"""A home that an earlier version made still opens, and nothing of it is computed again.

`homes/VERSION.tar.gz` holds the blueprint, its data, the copy and the home (without its token)
after a run of an earlier commit, with this version of the database. They lie in
/tmp/headgate-earlier-home, since paths of sources are part of what is remembered.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controlplane.store import HEAD
from tests.e2e.workspace import Workspace
from tests.slices import takes_turns

HOMES = Path(__file__).with_name("homes")
PLACE = Path("/tmp/headgate-earlier-home")  # where it was made
OF_TYPES = Path(__file__).with_name("home_of_types.tar.gz")
PLACE_OF_TYPES = Path("/tmp/headgate-types-home")


@pytest.fixture(params=sorted(path.name.removesuffix(".tar.gz") for path in HOMES.iterdir()))
def earlier(request: pytest.FixtureRequest) -> Iterator[Workspace]:
    with opened(HOMES / f"{request.param}.tar.gz", PLACE) as workspace:
        yield workspace


@contextmanager
def opened(home: Path, place: Path) -> Iterator[Workspace]:
    """A workspace of an archive, where it was made."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    with tarfile.open(home) as archive:
        archive.extractall(place, filter="data")
    workspace = Workspace(place)
    yield workspace
    workspace.end_all()
    shutil.rmtree(place)


def test_nothing_of_it_is_computed_again(earlier: Workspace) -> None:
    before = earlier.query("SELECT dataset, hex(root) FROM states ORDER BY dataset, seq")
    found = earlier.run("flow.yaml")
    found.assert_up_to_date()
    assert found.tasks == {}
    assert earlier.query("SELECT version_num FROM alembic_version") == [(HEAD,)]
    assert earlier.query("SELECT dataset, hex(root) FROM states ORDER BY dataset, seq") == before
    assert [json.loads(file.read_text()) for file in (PLACE / "out").rglob("part-*.json")] == [
        {"n": 3, "v": 130}
    ]


def test_it_goes_on_from_there(earlier: Workspace) -> None:
    earlier.write("in/c.csv", "k,v\n2,1\n")
    found = earlier.run("flow.yaml")
    found.assert_up_to_date()
    assert (
        found.tasks["executed"] == 6
    )  # the new file, its rows doubled, one key of its index, key 2, the total, Python's


# The order of steps is asked of unit/plan/test_examples, what files say of unit/listing/test_worker
@takes_turns(2, 3)
def test_what_was_misread_is_read_anew_and_nothing_else() -> None:
    """A home of the last commit that read Parquet under the dataset's types: 1.25 of a file is 125
    in it."""
    with opened(OF_TYPES, PLACE_OF_TYPES) as workspace:
        before = workspace.query(
            "SELECT dataset, hex(root) FROM states WHERE dataset IN ('old.fine', 'old.doubled')"
        )
        found = workspace.run("flow.yaml")
        found.assert_up_to_date()
        mixed, total = (
            workspace.call("records", f"old.{name}", "--home", workspace.home)
            for name in ("mixed", "total")
        )
        assert json.loads(mixed) == [{"id": 1, "c": "1.00"}, {"id": 2, "c": "1.25"}]
        assert json.loads(total) == [{"c": "2.25"}]
        # Both files of mixed, whose type is another one now, and the total
        assert found.tasks["executed"] == 3
        after = "SELECT DISTINCT dataset, hex(root) FROM states WHERE dataset IN ('old.fine', 'old.doubled')"
        assert sorted(workspace.query(after)) == sorted(before)
        told = workspace.call(
            "fsck", "--types", "--home", workspace.home, "--output", "json", code=1
        )
        [finding] = json.loads(told)["findings"]
        assert finding["code"] == "types-misread"
        assert finding["where"].startswith("old.mixed, partition '2.parquet', ")
        assert finding["what"] == "column c is DECIMAL(9,2) in the file, and was read as INT"

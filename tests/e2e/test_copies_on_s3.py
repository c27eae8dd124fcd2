"""Copies of a dataset in an object store while workers and control plane are killed in the middle
of writing them.

After each death the next run makes the copy what the dataset is. From step to step the source goes
from one of two states to the other, so that all partitions are written anew and hardly anything is
computed.
"""

from __future__ import annotations

import csv
import json
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import obstore
import pytest

from tests.e2e.conftest import closing
from tests.e2e.workspace import Workspace, ended, until
from tests.servers.s3 import CREDENTIALS, S3
from tests.slices import in_turn

# Takes turns with files on S3, orders and TPC-H: tests/s3 kills a writer at each place and sweeps
# what it left behind. Here workers and control planes die, each at one place.
pytestmark = in_turn(6, 8)

BLUEPRINT = """\
dataflow: shop
components:
  sales:
    read: {{connector: files, path: data/*.csv, format: csv, options: {{header: true}}, schema: "day INT, note STRING"}}
  copies:
    write:
      connector: files
      from: sales
      path: s3://copies/copies
      format: csv
      storage: {{endpoint: "{url}", region: us-east-1, access_key_id: "secret://shop/id",
        secret_access_key: "secret://shop/key"}}
"""
STATES = (
    {"1.csv": ["1,a", "1,b"], "2.csv": ["2,b"], "3.csv": ["3,c"]},
    {"1.csv": ["1,a"], "2.csv": ["2,x", "2,y"], "3.csv": ["3,z"]},
)
OTHERS = {
    "copies/ours.txt": b"x",
    "copies/1.csv.bak/part-00000.csv": b"y",
    "copies-of-others/_headgate.json": b"z",
}


class Story:
    """A bucket of its own with objects of others, and a dataset that is copied into it."""

    def __init__(self, workspace: Workspace, s3: S3) -> None:
        self.workspace, self.bucket, self.steps = workspace, s3.bucket("copies"), 0
        workspace.write("shop.yaml", BLUEPRINT.format(url=s3.url))
        for name, body in OTHERS.items():
            obstore.put(self.bucket, name, body)

    def goes_on(self) -> None:
        """The source comes to its other state."""
        self.files = dict(STATES[self.steps % 2])
        self.steps += 1
        for name, lines in self.files.items():
            self.workspace.write(f"data/{name}", "\n".join(["day,note", *lines, ""]))

    def names(self) -> set[str]:
        return {name for name, _ in self.tags()}

    def tags(self) -> set[tuple[str, str | None]]:
        return {
            (meta["path"], meta["e_tag"]) for page in obstore.list(self.bucket) for meta in page
        }

    def objects(self) -> Mapping[str, bytes]:
        return {name: bytes(obstore.get(self.bucket, name).bytes()) for name in self.names()}

    def killed(self, failpoint: str) -> None:
        """A run whose worker dies there, and whose control plane is killed once something was put
        or deleted."""
        before = self.tags()
        process = self.workspace.start(
            "run", "shop.yaml", "--home", self.workspace.home, HEADGATE_FAILPOINTS=failpoint
        )
        with ended(process):
            until(lambda: self.tags() != before or process.poll() is not None, lambda: failpoint)
            assert process.poll() is None, process.communicate()
            os.kill(process.pid, signal.SIGKILL)
        self.workspace.assert_alone()

    def assert_in_sync(self) -> None:
        """For who asks the markers, and for who lists what there is: each row once, and nothing of
        others touched."""
        run = self.workspace.run("shop.yaml")
        run.assert_up_to_date()
        found = self.objects()
        assert {name: found[name] for name in OTHERS} == OTHERS
        ours = {
            name.removeprefix("copies/"): body for name, body in found.items() if name not in OTHERS
        }
        markers = {
            name.partition("/")[0]: body
            for name, body in ours.items()
            if name.endswith("/_headgate.json")
        }
        named = [
            f"{key}/{name}" for key, body in markers.items() for name in json.loads(body)["files"]
        ]
        assert sorted(ours) == sorted(
            [*named, *(f"{key}/_headgate.json" for key in markers), "_headgate.json"]
        )
        rows = {
            name.partition("/")[0]: list(csv.reader(ours[name].decode().splitlines()))[1:]
            for name in named
        }
        assert {
            key: sorted(",".join(row) for row in some) for key, some in rows.items()
        } == self.files


@pytest.fixture(scope="module")
def story(module_folder: Path, s3: S3) -> Iterator[Story]:
    (module_folder / "shop").mkdir()
    keys = {"ID": CREDENTIALS["AWS_ACCESS_KEY_ID"], "KEY": CREDENTIALS["AWS_SECRET_ACCESS_KEY"]}
    environment = {f"HEADGATE_SECRET_SHOP_{name}": value for name, value in keys.items()}
    with closing(Workspace(module_folder / "shop", environment=environment)) as workspace:
        yield Story(workspace, s3)


def test_the_control_plane_dies_before_it_takes_the_report(story: Story) -> None:
    story.goes_on()
    story.workspace.dies("before-commit-write", "shop.yaml")
    story.assert_in_sync()


# Before a sweep, after all
@pytest.mark.parametrize("failpoint", ["files-marked", "worker-before-report-write"])
def test_a_worker_dies_in_the_middle(story: Story, failpoint: str) -> None:
    story.goes_on()
    story.killed(failpoint)
    story.assert_in_sync()


def test_a_partition_that_went_leaves_a_marker_of_nothing(story: Story) -> None:
    del story.files["3.csv"]
    (story.workspace.folder / "data" / "3.csv").unlink()
    story.assert_in_sync()
    assert json.loads(story.objects()["copies/3.csv/_headgate.json"])["files"] == []


def test_a_target_that_was_removed_is_written_again_as_a_whole(story: Story) -> None:
    for name in story.names() - OTHERS.keys():
        obstore.delete(story.bucket, name)
    story.files["1.csv"] = ["1,new"]
    story.workspace.write("data/1.csv", "day,note\n1,new\n")
    story.assert_in_sync()

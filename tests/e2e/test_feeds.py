"""Two teams in one running service with real Spark: one offers a dataset, the other reads it by its
name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import closing, placed
from tests.e2e.workspace import HANGS_S, Workspace, ended, until
from tests.slices import TURN, in_turn

OFFERS = """\
dataflow: letters
components:
  lines:
    read: {connector: files, path: ours/*.txt, format: text, refresh: 1s}
  upper:
    transform: {sql: "SELECT upper(value) AS value FROM lines"}
"""
READS = """\
dataflow: loud
components:
  heard:
    read: {connector: feed, feed: upper, namespace: default}
  louder:
    transform: {sql: "SELECT concat(value, '!') AS value FROM heard"}
"""


# tests/s3/test_objects asks at each commit that a file copied by the store outlives its source
S3, OF = 2, 6
INSTEAD = [pytest.mark.sweep, *([pytest.mark.soak] if TURN % OF == S3 else [])]


@pytest.fixture(
    params=(pytest.param("local", marks=INSTEAD), pytest.param("s3", marks=in_turn(S3, OF)))
)
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Workspace]:
    """On object stores files are copied by the store, where disks link them."""
    with closing(placed(request, Workspace(tmp_path / "home"))) as workspace:
        workspace.write("ours/a.txt", "one\ntwo\n")
        workspace.write("letters.yaml", OFFERS)
        workspace.write("loud.yaml", READS)
        yield workspace


def test_a_late_file_of_one_team_reaches_another_through_a_feed(place: Workspace) -> None:
    with place.serving() as service:
        place.ask("namespace", "create", "team-a")
        token = place.ask("token", "create", "ann", "--namespace", "team-a")["token"]
        theirs: Any = {"HEADGATE_URL": service.url, "HEADGATE_TOKEN": token}
        place.ask("apply", "letters.yaml")
        place.ask("wait", "letters")
        place.ask("feed", "create", "upper", "letters.upper")
        place.ask("feed", "grant", "upper", "team-a", "--dataflows", "lou*")
        assert "value STRING" in place.call("feed", "offered", **theirs)

        place.call("apply", "loud.yaml", "--wait", **theirs)
        assert rows(place, theirs) == ["ONE!", "TWO!"]
        place.write("ours/b.txt", "three\n")
        until(
            lambda: rows(place, theirs) == ["ONE!", "THREE!", "TWO!"],
            lambda: f"it has {rows(place, theirs)}",
        )
        attempts = json.loads(place.call("tasks", "loud.heard", "--output", "json", **theirs))
        assert attempts["items"] == []  # nothing of the producer was computed again
        assert place.ask("feed", "show", "upper")["readers"][0]["namespace"] == "team-a"
        place.call("feed", "delete", "upper", "--home", place.home, code=1)

        place.ask("feed", "revoke", "upper", "team-a")
        until(lambda: "feed-not-granted" in status(place, theirs), lambda: status(place, theirs))
        assert rows(place, theirs) == ["ONE!", "THREE!", "TWO!"]
        assert place.ask("fsck", "--files")["findings"] == []
        assert (
            json.loads(place.call("fsck", "--files", "--output", "json", **theirs))["findings"]
            == []
        )


def rows(place: Workspace, theirs: Any) -> list[str]:
    return sorted(
        row["value"] for row in json.loads(place.call("records", "loud.louder", **theirs))
    )


def status(place: Workspace, theirs: Any) -> str:
    """It ends with 1 where something failed."""
    with ended(place.start("status", "--output", "json", **theirs)) as process:
        told, _ = process.communicate(timeout=HANGS_S)
    return told.decode()

"""Two teams in one running service: each computes a dataflow of the same name from its own files,
beside the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.model import namespaces
from tests.e2e.conftest import closing
from tests.e2e.workspace import HANGS_S, Workspace, ended, until
from tests.slices import in_turn

# Walls between namespaces are asked of store, unit/operations and unit/api; test_feeds has two at
# each commit.
pytestmark = in_turn(1, 6)

LETTERS = """\
dataflow: letters
components:
  lines:
    read: {connector: files, path: FOLDER/*.txt, format: text, refresh: 1s}
  upper:
    transform: {sql: SELECT upper(value) AS value FROM lines}
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workspace]:
    with closing(Workspace(tmp_path)) as workspace:
        for team, text in (("ours", "one\ntwo\n"), ("theirs", "three\n")):
            workspace.write(f"{team}/a.txt", text)
            workspace.write(f"{team}.yaml", LETTERS.replace("FOLDER", team))
        yield workspace


def test_a_namespace_from_its_first_token_to_its_end(place: Workspace) -> None:
    with place.serving() as service:
        made = place.ask("namespace", "create", "team-a")
        assert (made["name"], made["dataflows"]) == ("team-a", 0)
        token = place.ask("token", "create", "ann", "--namespace", "team-a")["token"]
        theirs = {"HEADGATE_URL": service.url, "HEADGATE_TOKEN": token}
        place.ask("apply", "ours.yaml")
        place.call("apply", "theirs.yaml", "--wait", **theirs)
        place.ask("wait", "letters")
        assert rows(place.call("records", "letters.upper", "--home", place.home)) == ["ONE", "TWO"]
        assert rows(place.call("records", "letters.upper", **theirs)) == ["THREE"]
        assert {path.name for path in place.lake.iterdir()} == {"default", "team-a"}
        place.call("namespace", "list", code=1, **theirs)

        assert "team-a" in place.call("namespace", "list", "--home", place.home)
        place.call("namespace", "delete", "team-a", "--home", place.home, code=1)
        place.call("delete", "letters", **theirs)
        until(lambda: is_deleted(place), lambda: "the namespace stays in use")
        assert {path.name for path in place.lake.iterdir()} == {"default"}
        place.call("status", code=1, **theirs)
        until(
            lambda: not drivers_of_team(place),
            lambda: f"its drivers stay: {drivers_of_team(place)}",
        )
        assert rows(place.call("records", "letters.upper", "--home", place.home)) == ["ONE", "TWO"]


def rows(text: str) -> list[Any]:
    return sorted(row["value"] for row in json.loads(text))


def is_deleted(place: Workspace) -> bool:
    """Work of the dataflow may be under way for a moment."""
    process = place.start("namespace", "delete", "team-a", "--home", place.home)
    with ended(process):
        _, told = process.communicate(timeout=HANGS_S)
    assert process.returncode == 0 or b"in use" in told
    return process.returncode == 0


def drivers_of_team(place: Workspace) -> list[str]:
    """Logs of drivers and workers of the team that still run, as their processes say."""
    logs = [path.stem for path in (place.home / "logs").glob("*.log")]
    ours = [id for id in logs if namespaces.of_id(id) == "team-a"]
    assert ours
    told = [str(Path(f"/proc/{pid}/fd/1").readlink()) for pid in place.processes() if alive(pid)]
    return [id for id in ours if any(id in path for path in told)]


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/fd/1").is_symlink()

"""Marker files in a target. They name its owner, so that two writers never both own one, and the
generation of each partition, so that a late writer never overwrites a later generation."""

from __future__ import annotations

import json
import os
from pathlib import Path
from uuid import uuid4

from dataplane.contract.results import TARGET_GONE
from dataplane.contract.schemas import Json
from dataplane.fragments.arrow import dumps
from dataplane.task_failures import TaskFailure

MARKER = "_headgate.json"
TEMPORARY = "_headgate-"  # starts the names of files that are on their way in or out
VERSION = 1
RELEASE = "To hand it over, remove it with all that is in it"


def take(root: Path, owner: str, version: int = VERSION) -> None:
    """Make an existing folder the owner's, or fail with `target-owned`."""
    marker = root / MARKER
    if not put_if_absent(marker, whose(owner, version)) and (other := owner_of(marker)) != owner:
        raise TaskFailure("target-owned", f"{root} belongs to {other}: not written to. {RELEASE}")


def target_gone(place: str) -> TaskFailure:
    """The error of a target that `goes_on` and is gone: its other partitions would be missing for
    good."""
    return TaskFailure(
        TARGET_GONE, f"{place} is not there any more: all of it is written again", "infrastructure"
    )


def whose(owner: str, version: int = VERSION) -> str:
    """The text of a target's marker. `version`: of the layout of what lies beside it."""
    return dumps({"owner": owner, "version": version})


def read_marker(marker: Path) -> Json:
    return json.loads(marker.read_text("utf-8"))


def owner_of(marker: Path) -> str | None:
    """Whose a marker is; None if it does not say."""
    try:
        return str(read_marker(marker)["owner"])
    except (ValueError, KeyError, TypeError):
        return None


def version_of(marker: Path) -> int:
    """The layout of a target."""
    return int(read_marker(marker).get("version", VERSION))


def of_partition(owner: str, partition: str, files: list[str], generation: int) -> str:
    """The text of a partition's marker, unlike any other. Without files: it was removed."""
    content = {
        "owner": owner,
        "version": VERSION,
        "partition": partition,
        "files": files,
        "generation": generation,
    }
    return dumps({**content, "id": uuid4().hex})


def fence(place: str, marker: Json, generation: int) -> None:
    """`target-ahead` where the marker is of a later generation."""
    if (latest := int(marker.get("generation", 0))) > generation:
        message = f"{place} has seen generation {latest}, this is of generation {generation}"
        raise TaskFailure("target-ahead", message, "infrastructure")


def put_if_absent(path: Path, body: str) -> bool:
    """Whether the file is there now with this text, whole, and was not before."""
    temporary = path.with_name(f"{TEMPORARY}{uuid4().hex}")
    try:
        put_synced(temporary, body)
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def put_synced(path: Path, body: str) -> None:
    with path.open("x", encoding="utf-8") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())

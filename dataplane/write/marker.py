"""The file in a target folder that says whose it is, so that two writers never both own one.

Does not belong here: what is written beside it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from uuid import uuid4

from dataplane.arrow import dumps
from dataplane.failure import TaskFailure

MARKER = "_headgate.json"
TEMPORARY = "_headgate-"  # starts the names of what is on its way in or out
VERSION = 1
RELEASE = "To hand it over, remove it with all that is in it"


def take(root: Path, owner: str) -> None:
    """Make an existing folder the owner's, or fail with `target-owned`."""
    marker = root / MARKER
    if not put_if_absent(marker, dumps({"owner": owner, "version": VERSION})) and (other := owner_of(marker)) != owner:
        raise TaskFailure("target-owned", f"{root} belongs to {other}: not written to. {RELEASE}")


def owner_of(marker: Path) -> str | None:
    """Whose a marker is; None if it does not say."""
    try:
        return str(json.loads(marker.read_text("utf-8"))["owner"])
    except (ValueError, KeyError, TypeError):
        return None


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

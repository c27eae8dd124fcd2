"""The `write` kind for files: a target in a folder, or in an object store."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dataplane.connectors.files.write_local import FilesTarget
from dataplane.connectors.files.write_remote import RemoteTarget
from dataplane.contract.claims import WriteTask
from dataplane.contract.jobs import WriteJob
from dataplane.contract.results import WriteAnswer
from dataplane.storage.lake import Lake
from dataplane.storage.refused_places import Places
from dataplane.storage.source_stores import is_remote


@contextmanager
def writing(job: WriteJob, lake: Lake) -> Iterator[Callable[[WriteTask], WriteAnswer]]:
    """The function that runs the `write` tasks of a claim."""
    yield lambda task: write_tasks(job, lake, task)


def opened(job: WriteJob) -> FilesTarget | RemoteTarget:
    """The target, wherever it lies."""
    return RemoteTarget(job) if is_remote(job["path"]) else FilesTarget(job)


def write_tasks(job: WriteJob, lake: Lake, task: WriteTask) -> WriteAnswer:
    """The result of one `write` task."""
    Places.of(os.environ, lake.place("")).check_target(job["path"])
    target = opened(job)
    target.open(time.time())
    generation = task.get("generation", 0)
    if task.get("remove"):
        return target.remove(task["partition"], generation)
    return target.replace(task["partition"], (lake.open(f) for f in task["files"]), generation)

"""Files that Spark cannot reach, copied into the scratch folder of an attempt: files of servers, and
members of archives. A copy is compared with its listing while it is made."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from dataplane.connectors.files.source_bytes import reported_path
from dataplane.connectors.files.stages import Stage, in_place_of
from dataplane.contract.archives import split_member
from dataplane.contract.jobs import SourceJob
from dataplane.contract.source_objects import SourceObject
from dataplane.listing.archive_calls import ArchiveCall, unpack_members
from dataplane.listing.archive_process import AS_LISTED, CHANGED, WantedMember
from dataplane.storage.source_copies import copy_file
from dataplane.storage.source_stores import Moved, is_http, is_sftp, path_of
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    from dataplane.contract.claims import ObjectsTask

LONGEST_SUFFIX = 50  # characters: a name on disk has 255 bytes


def is_copied(source: SourceObject) -> bool:
    uri = source["uri"]
    return is_http(uri) or is_sftp(uri) or _is_member(source)


def _is_member(source: SourceObject) -> bool:
    """Absolute paths, which earlier versions listed, are no URIs: a `#` belongs to the name."""
    return not source["uri"].startswith("/") and "#" in source["uri"]


class CopyStage(Stage):
    """The files of one job as they are listed, in a folder."""

    def __init__(
        self,
        folder: Path,
        job: SourceJob,
        tasks: Sequence[ObjectsTask],
        cancelled: threading.Event,
    ) -> None:
        super().__init__(folder, job, tasks, cancelled)
        self.job = job
        self._numbers = itertools.count()
        self._targets: dict[tuple[str, str], Path] = {}  # of members: by URI and version
        self._sizes: dict[Path, int] = {}
        self._archives: dict[str, Future[dict[str, str]]] = {}
        self._lock = threading.Lock()
        members = filter(_is_member, (o for task in tasks for o in task["objects"]))
        for source in members:
            key = (source["uri"], source["version"])
            if key not in self._targets:
                self._targets[key] = self._target(source)
                self._sizes[self._targets[key]] = source["size"]

    def _target(self, source: SourceObject) -> Path:
        """A file of its own, whose name ends as the listed one does: that is how its compression is
        known."""
        archive, member = split_member(source["uri"])
        name = member if _is_member(source) else path_of(archive).partition("?")[0]
        suffix = "".join(PurePosixPath(name).suffixes[-2:])
        return self.folder / f"{next(self._numbers)}{suffix[-LONGEST_SUFFIX:]}"

    def staged(self, source: SourceObject) -> SourceObject:
        if _is_member(source):
            target = self._targets[source["uri"], source["version"]]
            self._check_member(source, target)
        else:
            with self._lock:
                target = self._target(source)
            copy_file(self.listed_job, source["uri"], source["version"], target, self._take)
        self.note_place(target, reported_path(source))
        return in_place_of(source, target)

    def _take(self, size: int) -> None:
        self.check()
        self.space.take(size)

    def _check_member(self, source: SourceObject, target: Path) -> None:
        archive, _ = split_member(source["uri"])
        outcome = self._unpacked(archive)[str(target)]
        if outcome == CHANGED:
            raise Moved(source["uri"])
        if outcome != AS_LISTED:
            raise TaskFailure("MALFORMED_FILE", f"{source['uri']}: {outcome}", file=source["uri"])

    def _unpacked(self, archive: str) -> dict[str, str]:
        """Outcomes of the members that the tasks read, which are unpacked together: an archive is
        read once."""
        with self._lock:
            is_first = archive not in self._archives
            future = self._archives.setdefault(archive, Future())
        if is_first:
            try:
                future.set_result(self._unpack(archive))
            except BaseException as e:  # noqa: BLE001  # of each task that waits
                future.set_exception(e)
        return future.result()

    def _unpack(self, archive: str) -> dict[str, str]:
        requested: list[WantedMember] = []
        for (uri, version), target in self._targets.items():
            of_archive, name = split_member(uri)
            if of_archive == archive:
                self.space.take(self._sizes[target])
                requested.append({"name": name, "version": version, "target": str(target)})
        call = ArchiveCall(self.listed_job, self.folder, self.check)
        return unpack_members(call, archive, requested)

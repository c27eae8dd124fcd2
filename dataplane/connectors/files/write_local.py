"""Writing to local files: a folder for each partition, swapped in whole, in a target that names its
owner.

A folder is replaced or removed only if its marker says that we wrote all that is in it, and that it
is of no later generation. That of a removed one is kept for a day under a name that no reader looks
at.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from dataplane.connectors.files.marker import (
    MARKER,
    TEMPORARY,
    fence,
    of_partition,
    owner_of,
    put_synced,
    read_marker,
    take,
    target_gone,
    version_of,
)
from dataplane.connectors.files.partition_folders import FIRST, NEWEST, PartitionFolders, places_of
from dataplane.connectors.files.write_formats import FileFormat
from dataplane.contract.jobs import WriteJob
from dataplane.contract.keys import encode_key
from dataplane.contract.results import WriteAnswer
from dataplane.listing.local_files import local_path
from dataplane.task_failures import TaskFailure

ABANDONED_S = 86_400.0
TRIES, PAUSE_S = 600, 0.05


class FilesTarget(PartitionFolders):
    """One target folder, owned. Every method may be repeated."""

    def __init__(self, job: WriteJob) -> None:
        super().__init__(job)
        self.format = FileFormat.of(job)
        self.root = Path(local_path(job["path"]))

    def open(self, now_s: float) -> None:
        """Make the folder ours, or fail with `target-owned`, or with `target-gone` if it was to be
        there and is not; sweep the leftovers of a crash a day ago."""
        if self.goes_on and not os.path.lexists(self.root / MARKER):
            raise target_gone(str(self.root))
        self.root.mkdir(parents=True, exist_ok=True)
        take(self.root, self.owner, NEWEST)
        self.layout = version_of(self.root / MARKER)
        for folder in self.root.glob(f"{TEMPORARY}*"):
            with suppress(FileNotFoundError):  # another writer was done with it meanwhile
                if folder.stat().st_mtime < now_s - ABANDONED_S:
                    shutil.rmtree(folder, ignore_errors=True)

    def replace(self, partition: str, files: Iterable[Any], generation: int) -> WriteAnswer:
        """Replace one partition's rows. Result: `{rows, bytes}`."""
        final = self._folder(partition)
        with self._fresh() as fresh:
            file = fresh / self.format.file_name
            rows = self.format.write(file, files)
            size = file.stat().st_size
            self._swap(partition, fresh, final, [file.name], generation)
        return {"rows": rows, "bytes": size}

    def remove(self, partition: str, generation: int) -> WriteAnswer:
        with self._fresh() as fresh:
            self._swap(partition, fresh, self._past(self._folder(partition)), [], generation)
        return {"rows": 0, "bytes": 0}

    def _folder(self, partition: str) -> Path:
        return self.root / self.folder_of(partition)

    def _past(self, folder: Path) -> Path:
        """Where the marker of a removed partition lies."""
        name = folder.relative_to(self.root).as_posix()
        return self.root / f"{TEMPORARY}{sha256(name.encode()).hexdigest()[:32]}"

    @contextmanager
    def _fresh(self) -> Iterator[Path]:
        folder = self.root / f"{TEMPORARY}{uuid4().hex}"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _swap(
        self, partition: str, fresh: Path, final: Path, files: list[str], generation: int
    ) -> None:
        """Take a partition's old folders away, and put the fresh folder in their place, unless that
        is of a later generation or not all ours."""
        put_synced(fresh / MARKER, of_partition(self.owner, partition, files, generation))
        folder = self._folder(partition)
        past = self._past(folder)
        with self._alone():
            tops = self._in_the_way(partition, folder)
            if not files:
                tops = [top for top in tops if self._is_own(top, folder)]
            leaves = [leaf for top in tops for leaf in self._partitions_in(top)]
            for place in (*leaves, past):
                if (place / MARKER).is_file():
                    fence(str(folder), read_marker(place / MARKER), generation)
            others = {
                leaf: str(read_marker(leaf / MARKER).get("partition", partition))
                for leaf in leaves
                if leaf != folder
            }
            removed = [self._away(f) for f in (*tops, past) if os.path.lexists(f)]
            removed += [
                old for leaf, key in others.items() for old in self._left(leaf, key, generation)
            ]
            final.parent.mkdir(parents=True, exist_ok=True)
            fresh.rename(final)
            self._prune(tops)
        for left in removed:
            shutil.rmtree(left, ignore_errors=True)  # what stays is swept

    def _in_the_way(self, partition: str, folder: Path) -> list[Path]:
        """Folders that are taken away whole: the partition's own, by any layout; one of a
        partition whose folder would have to hold this one, since the dataset had fewer columns in
        its key."""
        own = [folder] if os.path.lexists(folder) else []
        if self.layout == FIRST:
            return own
        self._check_name(partition, folder)
        above = [
            f
            for f in folder.parents
            if f.is_relative_to(self.root) and f != self.root and (f / MARKER).is_file()
        ]
        places = [self.root / place for place in places_of(partition)]
        return [*above, *own, *(f for f in places if f != folder and self._was_of(f, partition))]

    def _is_own(self, top: Path, folder: Path) -> bool:
        """Not of partitions that came in the place of a removed one, when the key got more columns
        or fewer."""
        return not folder.is_relative_to(top) or (
            top == folder and folder in self._partitions_in(folder)
        )

    def _check_name(self, partition: str, folder: Path) -> None:
        marker = folder / MARKER
        if (
            marker.is_file()
            and (other := read_marker(marker).get("partition", partition)) != partition
        ):
            raise TaskFailure(
                "target-occupied", f"{folder} is the folder of another partition: {other}"
            )

    def _was_of(self, folder: Path, partition: str) -> bool:
        """Whether a folder is one of ours in which the partition lay. In the first layout the
        folder's name is the partition."""
        marker = folder / MARKER
        if folder.is_symlink() or not marker.is_file() or owner_of(marker) != self.owner:
            return False
        owner_partition = read_marker(marker).get("partition")
        return (
            owner_partition == partition
            if owner_partition is not None
            else folder.name == encode_key(partition)
        )

    def _left(self, leaf: Path, partition: str, generation: int) -> Iterator[Path]:
        """Record that a partition was removed from a folder other than its present one; yields an
        older record to delete."""
        past = self._past(leaf)
        if os.path.lexists(past):
            yield self._away(past)
        past.mkdir()
        put_synced(past / MARKER, of_partition(self.owner, partition, [], generation))

    def _prune(self, tops: Iterable[Path]) -> None:
        """Remove the folders that have nothing in them any more."""
        for top in tops:
            for folder in top.parents:
                if folder == self.root or not _is_removed(folder):
                    break

    def _away(self, folder: Path) -> Path:
        place = self.root / f"{TEMPORARY}{uuid4().hex}"
        folder.rename(place)
        return place

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other writer looks or swaps meanwhile. One that was stopped in here is waited for no
        longer than that."""
        with (self.root / MARKER).open("r+b") as file:
            for tries in count():
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if tries == TRIES:
                        message = (
                            f"another writer has been at {self.root} for {TRIES * PAUSE_S:.0f} s"
                        )
                        raise TaskFailure("target-busy", message, "infrastructure") from None
                    time.sleep(PAUSE_S)
            yield

    def _partitions_in(self, folder: Path) -> list[Path]:
        """The folders of partitions at a place: itself, or those below. Raises TaskFailure for
        anything not ours."""
        marker = folder / MARKER
        if folder.is_symlink() or not folder.is_dir():
            raise _strange(folder)
        if marker.is_file():
            if owner_of(marker) != self.owner:
                raise _strange(folder)
            ours = {MARKER, *read_marker(marker)["files"]}
            other = next((f for f in sorted(folder.iterdir()) if f.name not in ours), None)
            if other is not None:
                raise _strange(other)
            return [folder]
        below = [] if self.layout == FIRST else sorted(folder.iterdir())
        leaves = [leaf for inner in below for leaf in self._partitions_in(inner)]
        if not leaves:
            raise _strange(folder)
        return leaves


def _strange(path: Path) -> TaskFailure:
    return TaskFailure("target-occupied", f"not written by us, so left alone: {path}")


def _is_removed(folder: Path) -> bool:
    """Whether it was empty, and is gone."""
    try:
        folder.rmdir()
    except OSError:
        return False
    return True

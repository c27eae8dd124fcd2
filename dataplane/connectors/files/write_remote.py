"""Writing files to an object store: objects below a name for each partition, in a target that names
its owner.

Nothing is renamed there. A partition's rows are put under a fresh name; then its marker, in one
put, says which names count; then the old names are deleted. The put holds only if the marker is the
one that was seen before, and that is of no later generation, so that of two writers the store
refuses one; a removed partition keeps a marker that names nothing. Objects of this target's owner
are recognized by their names, so that the next write sweeps the leftovers of a crash, and never an
object of another owner.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from dataplane.connectors.files.marker import (
    MARKER,
    RELEASE,
    fence,
    of_partition,
    target_gone,
    whose,
)
from dataplane.connectors.files.partition_folders import FIRST, NEWEST, PartitionFolders, places_of
from dataplane.connectors.files.write_formats import FileFormat
from dataplane.contract.failpoints import failpoint
from dataplane.contract.jobs import WriteJob
from dataplane.contract.keys import encode_key
from dataplane.contract.results import WriteAnswer
from dataplane.contract.schemas import Json
from dataplane.storage.source_stores import open_root, root_of, telling, uri_of
from dataplane.storage.store_addresses import access_of
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    from obstore import UpdateVersion


@dataclass(frozen=True, slots=True)
class Contents:
    """Objects with rows, and the version of the marker beside them."""

    rows: list[str]
    marker: UpdateVersion | None


class RemoteTarget(PartitionFolders):
    """One prefix, owned. Every method may be repeated."""

    def __init__(self, job: WriteJob) -> None:
        super().__init__(job)
        self.format = FileFormat.of(job)
        self.root = root_of(job["path"])
        self.folder = job["path"].removeprefix(self.root).strip("/")
        self.store = open_root(self.root, access_of(job))
        self._own = re.compile(rf"part-00000-{self._tag}-[0-9a-f]{{32}}\..*")

    @property
    def _tag(self) -> str:
        return sha256(self.owner.encode()).hexdigest()[:12]

    def open(self, _now_s: float) -> None:
        """Make the prefix ours, or fail with `target-owned`, or with `target-gone` if it was to be
        there and is not. If two do so at once, the store lets one win."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        path = self._path(MARKER)
        with self._telling(path):
            if self.goes_on and not self._is_there(path):
                raise target_gone(uri_of(self.root, self.folder))
            try:
                text = whose(self.owner, NEWEST)
                obstore.put(self.store, path, text.encode(), mode="create", use_multipart=False)
            except AlreadyExistsError:
                marker = self._read(path)[0]
                if (other := marker.get("owner")) != self.owner:
                    message = f"{uri_of(self.root, self.folder)} belongs to {other}: not written to. {RELEASE}"
                    raise TaskFailure("target-owned", message) from None
                self.layout = int(marker.get("version", FIRST))
        failpoint("files-taken")

    def replace(self, partition: str, files: Iterable[Any], generation: int) -> WriteAnswer:
        """Replace one partition's rows. Result: `{rows, bytes}`."""
        folder = self._folder(partition)
        contents = self._contents(folder, generation)
        with TemporaryDirectory(prefix="headgate-") as scratch:
            file = Path(scratch) / "rows"
            rows = self.format.write(file, files)
            size = file.stat().st_size
            name = self.format.file_name.replace(
                "part-00000", f"part-00000-{self._tag}-{uuid4().hex}", 1
            )
            self._put(f"{folder}/{name}", file)
        failpoint("files-put")
        self._mark(partition, folder, contents, [name], generation)
        failpoint("files-marked")
        self._delete(contents.rows)
        if not self.goes_on:  # else it lies nowhere else
            self._remove_others(partition, generation)
        failpoint("files-written")
        return {"rows": rows, "bytes": size}

    def remove(self, partition: str, generation: int) -> WriteAnswer:
        folder = self._folder(partition)
        contents = self._contents(folder, generation)
        self._mark(partition, folder, contents, [], generation)
        failpoint("files-unmarked")
        self._delete(contents.rows)
        self._remove_others(partition, generation)
        return {"rows": 0, "bytes": 0}

    def _remove_others(self, partition: str, generation: int) -> None:
        """From where the partition lay by another layout, or while the dataset had another key."""
        if self.layout == FIRST:
            return
        own = self._folder(partition)
        for place in sorted({self._path(name) for name in places_of(partition)} - {own}):
            marker = self._marker(place)
            if (
                marker.get("owner") == self.owner
                and self._was_of(marker, place, partition)
                and marker.get("files")
            ):
                contents = self._contents(place, generation)
                self._mark(partition, place, contents, [], generation)
                self._delete(contents.rows)

    def _was_of(self, marker: Json, place: str, partition: str) -> bool:
        """Whether the partition lay there. In the first layout, the name of the place says so."""
        marked = marker.get("partition")
        return (
            marked == partition
            if marked is not None
            else place == self._path(encode_key(partition))
        )

    def _marker(self, place: str) -> Json:
        """The content of the marker at a place; empty where there is none."""
        path = f"{place}/{MARKER}"
        with self._telling(path):
            is_there = self._is_there(path)
        return self._read(path)[0] if is_there else {}

    # objects

    def _telling(self, path: str) -> AbstractContextManager[None]:
        return telling(uri_of(self.root, path))

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.folder else name

    def _folder(self, partition: str) -> str:
        return self._path(self.folder_of(partition))

    def _contents(self, folder: str, generation: int) -> Contents:
        """The objects that we have put there. TaskFailure for objects of others, or for a later
        generation of ours."""
        import obstore

        with self._telling(folder):
            listed = [
                meta["path"] for page in obstore.list(self.store, prefix=folder) for meta in page
            ]
        paths = [path for path in listed if not self._is_below(path, folder)]
        place = f"{folder}/{MARKER}"
        marker, tag = self._read(place) if place in paths else ({}, None)
        for path in paths:
            is_ours = self._own.fullmatch(path.removeprefix(f"{folder}/"))
            if not (marker.get("owner") == self.owner if path == place else is_ours):
                message = f"not written by us, so left alone: {uri_of(self.root, path)}"
                raise TaskFailure("target-occupied", message)
        fence(uri_of(self.root, folder), marker, generation)
        return Contents([path for path in paths if path != place], tag)

    def _is_below(self, path: str, folder: str) -> bool:
        """Whether a path belongs to another partition of ours, whose key had more columns: a task
        of its own removes it."""
        inner, _, name = path.removeprefix(f"{folder}/").rpartition("/")
        return bool(inner) and (name == MARKER or bool(self._own.fullmatch(name)))

    def _is_there(self, path: str) -> bool:
        import obstore

        try:
            obstore.head(self.store, path)
        except FileNotFoundError:
            return False
        return True

    def _read(self, path: str) -> tuple[Json, UpdateVersion | None]:
        """The content of a marker (empty where it is not a JSON object), and its version in the
        store."""
        import obstore

        with self._telling(path):
            answer = obstore.get(self.store, path)
            body, meta = bytes(answer.bytes()), answer.meta
        version: Any = {name: tag for name in ("e_tag", "version") if (tag := meta[name])}
        try:
            content = json.loads(body)
        except ValueError:
            content = None
        return content if isinstance(content, dict) else {}, version

    def _mark(
        self, partition: str, folder: str, contents: Contents, files: list[str], generation: int
    ) -> None:
        """Put the marker: its files count from now on. TaskFailure where another writer has put one
        meanwhile."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        path, text = f"{folder}/{MARKER}", of_partition(self.owner, partition, files, generation)
        with self._telling(path):
            try:
                obstore.put(
                    self.store,
                    path,
                    text.encode(),
                    mode=contents.marker or "create",
                    use_multipart=False,
                )
            except (AlreadyExistsError, PreconditionError):
                if self._read(path)[0] == json.loads(text):
                    return  # it was put, and the answer was lost
                self._delete(f"{folder}/{name}" for name in files)
                message = f"another writer was at {uri_of(self.root, folder)} meanwhile"
                raise TaskFailure("target-busy", message, "infrastructure") from None

    def _put(self, path: str, body: bytes | Path) -> None:
        import obstore

        with self._telling(path):
            obstore.put(self.store, path, body)

    def _delete(self, paths: Iterable[str]) -> None:
        import obstore

        for path in paths:
            with self._telling(path):
                try:
                    obstore.delete(self.store, path)
                except FileNotFoundError:
                    continue
            failpoint("files-swept")

"""The lake as the data plane uses it: files by paths relative to its root, in a local folder or an object store.

Folders of fragments are fresh for each job and their names are ours, so nothing here overwrites. Does not belong here:
what files hold; reading them with Spark (reading).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from dataplane.contract.results import LABEL
from dataplane.errors import TaskFailure

PARQUET = ".parquet"
TEMPORARY = ".tmp-"  # starts the names of files that are not there yet; control plane and Spark overlook them


class Lake(Protocol):
    """Safe to use from many threads. What the storage does wrong is an OSError that may be tried again."""

    def place(self, path: str) -> str:
        """The same path as Spark knows it."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Path -> bytes of all Parquet files below a folder, in order; none if there is no such folder."""

    def size_bytes(self, paths: Iterable[str], enough: int) -> int:
        """Bytes of some files; it may stop counting beyond `enough`."""

    def open(self, path: str, size: int | None = None) -> Any:
        """The file as a source that pyarrow reads from. `size` where it is known saves a question."""

    def fetch(self, path: str, to: Path) -> None:
        """Copy a file to this machine."""

    def footer(self, path: str, size: int) -> Any:
        """The metadata of a Parquet file, as pyarrow tells them."""

    def put_if_absent(self, path: str, body: bytes) -> bool:
        """False, and nothing is changed, if there is another one. It appears whole or not at all."""

    def new_file(self, path: str) -> AbstractContextManager[Path]:
        """Where to write a file that is to be in the lake once the block is left; none need be written."""

    def begin(self, folder: str) -> str:
        """Make ready for a job of Spark that writes into a folder of its own; the save mode for it."""

    def settle(self, job: str, prefix: str) -> dict[str, dict[str, int]]:
        """Files that a job wrote below `<job>/_fragment=<label>`, with sizes, by label, at their last places."""

    def delete(self, paths: Iterable[str]) -> None:
        """Files; those that are not there are fine."""

    def delete_folder(self, folder: str) -> None:
        """A folder with all in it; none is fine."""


def open_lake(uri: str) -> Lake:
    """The lake behind a local path or `file:` URI, in HDFS, or behind any other URI that obstore knows."""
    parts = urlsplit(uri)
    if parts.scheme in ("", "file"):
        return LocalLake(Path(unquote(parts.path) if parts.scheme else uri))
    extra = "hdfs" if parts.scheme == "hdfs" else "s3"
    try:
        if extra == "hdfs":
            from dataplane.storage.hdfs_lake import HdfsLake

            return HdfsLake(uri)
        from dataplane.storage.object_store_lake import RemoteLake

        return RemoteLake(uri)
    except ModuleNotFoundError as e:
        message = f"the lake is {parts.scheme}:, which needs the package {e.name}: pip install 'headgate[{extra}]'"
        raise TaskFailure("missing-package", message, "infrastructure") from e


def fragment_folder(folder: str, label: str) -> str:
    return f"{folder}/{LABEL}={label}"


def by_label(sizes: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Files, with sizes, by the label in their paths."""
    found: dict[str, dict[str, int]] = {}
    for path, size in sizes.items():
        if named := _LABELLED.search(path):
            found.setdefault(named[1], {})[path] = size
    return found


_LABELLED = re.compile(rf"/{re.escape(LABEL)}=([^/]+)/[^/]+$")


class LocalLake:
    """Files below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def place(self, path: str) -> str:
        return str(self.root / path)

    def sizes(self, folder: str) -> dict[str, int]:
        found = sorted((self.root / folder).rglob(f"*{PARQUET}"))
        return {path.relative_to(self.root).as_posix(): path.stat().st_size for path in found}

    def size_bytes(self, paths: Iterable[str], enough: int) -> int:  # noqa: ARG002  # asking costs next to nothing
        return sum((self.root / path).stat().st_size for path in paths)

    def open(self, path: str, size: int | None = None) -> Any:  # noqa: ARG002
        return self.place(path)

    def fetch(self, path: str, to: Path) -> None:
        shutil.copyfile(self.root / path, to)

    def footer(self, path: str, size: int) -> Any:  # noqa: ARG002
        import pyarrow.parquet

        return pyarrow.parquet.read_metadata(self.root / path)

    def put_if_absent(self, path: str, body: bytes) -> bool:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f"{TEMPORARY}{uuid4().hex}")
        try:
            with temporary.open("xb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, target)
        except FileExistsError:
            return target.read_bytes() == body
        finally:
            temporary.unlink(missing_ok=True)
        return True

    @contextmanager
    def new_file(self, path: str) -> Iterator[Path]:
        yield self.root / path

    def begin(self, folder: str) -> str:  # noqa: ARG002  # Spark makes it
        return "errorifexists"

    def settle(self, job: str, prefix: str) -> dict[str, dict[str, int]]:
        """Moved beside those of other jobs, which is a rename each."""
        top = self.root / job
        labels: list[str] = []
        for name in [entry.name for entry in os.scandir(top) if entry.is_dir() and entry.name.startswith(f"{LABEL}=")]:
            target = self.root / prefix / name
            shutil.rmtree(target, ignore_errors=True)  # of an earlier try of this same attempt
            os.rename(top / name, target)
            labels.append(name.removeprefix(f"{LABEL}="))
        shutil.rmtree(top, ignore_errors=True)
        return {label: self.sizes(fragment_folder(prefix, label)) for label in sorted(labels)}

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            file = self.root / path
            file.unlink(missing_ok=True)
            with suppress(OSError):  # of a fragment's folder, what is left is nothing
                file.parent.rmdir()

    def delete_folder(self, folder: str) -> None:
        shutil.rmtree(self.root / folder, ignore_errors=True)

"""A lake in a local folder."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from dataplane.lakes.lake_paths import TEMPORARY, safe
from dataplane.lakes.lake_protocol import PIECE_BYTES, NotInLake


class LocalFiles:
    """Files below `root`. A file appears by a hard link, so that a reader never sees a part of
    one."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    @property
    def uri(self) -> str:
        return self.root.as_uri()

    def read(self, path: str) -> bytes:
        with _opened(self._at(path)) as file:
            return file.read()

    def stream(self, path: str) -> Iterator[bytes]:
        with _opened(self._at(path)) as file:
            while piece := file.read(PIECE_BYTES):
                yield piece

    def stream_range(self, path: str, start: int, end: int) -> Iterator[bytes]:
        with _opened(self._at(path)) as file:
            file.seek(start)
            left = end - start
            while left > 0 and (piece := file.read(min(PIECE_BYTES, left))):
                left -= len(piece)
                yield piece

    def put_if_absent(self, path: str, body: bytes) -> bool:
        target = self._at(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f"{TEMPORARY}{uuid4().hex}")
        try:
            _write_synced(temporary, body)
            os.link(temporary, target)
        except FileExistsError:
            return target.read_bytes() == body
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(target.parent)
        return True

    def sizes(self, prefix: str) -> dict[str, int]:
        top = self._folder(prefix)
        return dict(_walk(top, f"{prefix}/" if prefix else "")) if top.is_dir() else {}

    def link(self, source: str, target: str) -> None:
        """Hard link, or a copy where the file system has none. A target of another size is
        FileExistsError."""
        old, new = self._at(source), self._at(target)
        if not old.is_file():
            raise NotInLake(f"no file {old}")
        new.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(old, new)
        except FileExistsError:
            if old.stat().st_size != new.stat().st_size:
                raise
        except OSError:  # other device, no hard links, too many of them
            self.put_if_absent(target, old.read_bytes())

    def move_folders(self, source: str, target: str, start: str) -> list[str]:
        """Move each folder directly below `source` whose name begins with `start` below `target`,
        in place of one of the same name there. Returns the names, in order."""
        with os.scandir(self._at(source)) as entries:
            names = sorted(
                entry.name for entry in entries if entry.is_dir() and entry.name.startswith(start)
            )
        for name in names:
            place = self._at(f"{target}/{name}")
            shutil.rmtree(place, ignore_errors=True)
            os.rename(self._at(f"{source}/{name}"), place)
        return names

    def delete(self, paths: Iterable[str]) -> None:
        """Folders that become empty go as well."""
        for path in paths:
            file = self._at(path)
            file.unlink(missing_ok=True)
            with suppress(OSError):  # other files are in it
                file.parent.rmdir()

    def delete_folder(self, prefix: str) -> None:
        target = self._at(prefix)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)

    def folders(self, prefix: str) -> Iterator[str]:
        top = self._folder(prefix)
        return (
            iter(sorted(e.name for e in os.scandir(top) if e.is_dir()))
            if top.is_dir()
            else iter(())
        )

    def _at(self, path: str) -> Path:
        return self.root / safe(path)

    def _folder(self, prefix: str) -> Path:
        return self._at(prefix) if prefix else self.root


def _opened(path: Path) -> BinaryIO:
    """A regular file, to be read. Others of its name count as missing: opening a FIFO would wait
    for a writer."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError) as e:
        raise NotInLake(f"no file {path}") from e
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotInLake(f"not a file: {path}")
    return open(descriptor, "rb")


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path), f"{prefix}{entry.name}/")
            elif not entry.name.startswith(TEMPORARY):
                yield prefix + entry.name, entry.stat().st_size


def _write_synced(path: Path, body: bytes) -> None:
    with path.open("xb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""The lake as an object store: local folders, and through obstore everything else.

Does not belong here: what the objects mean; Delta logs (the publisher writes those).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from controlplane.core.errors import NotFound
from controlplane.ports import ObjectStore

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Backend

TEMPORARY = ".tmp-"  # starts the names of files that are not objects yet
PIECE_BYTES = 1 << 18


def open_lake(uri: str) -> ObjectStore:
    """The store behind a local path, a file: URI, or any URI that obstore knows (extra `s3`)."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return LocalObjects(Path(unquote(parts.path)))
    if "://" not in uri:
        return LocalObjects(Path(uri))
    from obstore.store import from_url  # an extra, and slow to import

    return RemoteObjects(uri, from_url(uri))


def safe(path: str) -> str:
    """The path itself, if it stays below the root whatever it is joined to; ValueError otherwise."""
    if not path or path.startswith("/") or "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(f"not a path in the lake: {path!r}")
    return path


class LocalObjects:
    """Objects as files below `root`. Objects appear by `link`, so that a reader never sees a part of one."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    @property
    def uri(self) -> str:
        return self.root.as_uri()

    def read(self, path: str) -> bytes:
        try:
            return self._at(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError) as e:
            raise NotFound(f"no object {path}") from e

    def stream(self, path: str) -> Iterator[bytes]:
        try:
            file = self._at(path).open("rb")
        except (FileNotFoundError, NotADirectoryError) as e:
            raise NotFound(f"no object {path}") from e
        with file:
            while piece := file.read(PIECE_BYTES):
                yield piece

    def put_if_absent(self, path: str, body: bytes) -> bool:
        target = self._at(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f"{TEMPORARY}{uuid4().hex}")
        try:
            _write_synced(temporary, body)
            os.link(temporary, target)
        except FileExistsError:
            return False
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(target.parent)
        return True

    def sizes(self, prefix: str) -> dict[str, int]:
        top = self._folder(prefix)
        return dict(_walk(top, f"{prefix}/" if prefix else "")) if top.is_dir() else {}

    def link(self, source: str, target: str) -> None:
        """Hard link, or a copy where the file system has none. A target of another size is FileExistsError."""
        old, new = self._at(source), self._at(target)
        if not old.is_file():
            raise NotFound(f"no object {source}")
        new.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(old, new)
        except FileExistsError:
            if old.stat().st_size != new.stat().st_size:
                raise
        except OSError:  # other device, no hard links, too many of them
            self.put_if_absent(target, old.read_bytes())

    def delete_prefix(self, prefix: str) -> None:
        target = self._at(prefix)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)

    def folders(self, prefix: str) -> Iterator[str]:
        top = self._folder(prefix)
        return iter(sorted(e.name for e in os.scandir(top) if e.is_dir())) if top.is_dir() else iter(())

    def _at(self, path: str) -> Path:
        return self.root / safe(path)

    def _folder(self, prefix: str) -> Path:
        return self._at(prefix) if prefix else self.root


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


class RemoteObjects:
    """Objects in S3, GCS, Azure or memory, by obstore. Conditional puts are the server's own."""

    def __init__(self, uri: str, backend: Backend) -> None:
        self._uri = uri.rstrip("/")
        self._backend = backend

    @property
    def uri(self) -> str:
        return self._uri

    def read(self, path: str) -> bytes:
        import obstore

        with _faults(path):
            return bytes(obstore.get(self._backend, safe(path)).bytes())

    def stream(self, path: str) -> Iterator[bytes]:
        import obstore

        with _faults(path):
            for piece in obstore.get(self._backend, safe(path)).stream(min_chunk_size=PIECE_BYTES):
                yield bytes(piece)

    def put_if_absent(self, path: str, body: bytes) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with _faults(path):
            try:
                obstore.put(self._backend, safe(path), body, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            return True

    def sizes(self, prefix: str) -> dict[str, int]:
        import obstore

        with _faults(prefix):
            listed = obstore.list(self._backend, prefix=safe(prefix) if prefix else None)
            return {o["path"]: o["size"] for chunk in listed for o in chunk}

    def link(self, source: str, target: str) -> None:
        import obstore

        with _faults(source):
            obstore.copy(self._backend, safe(source), safe(target))

    def delete_prefix(self, prefix: str) -> None:
        import obstore

        paths = [*self.sizes(safe(prefix))]
        with _faults(prefix):
            obstore.delete(self._backend, paths)

    def folders(self, prefix: str) -> Iterator[str]:
        import obstore

        with _faults(prefix):
            listed = obstore.list_with_delimiter(self._backend, prefix=safe(prefix) if prefix else None)
            return iter(sorted(p.rstrip("/").rpartition("/")[2] for p in listed["common_prefixes"]))


@contextmanager
def _faults(path: str) -> Iterator[None]:
    """Translate obstore's errors: what is not there is NotFound, all else an OSError that may be tried again."""
    from obstore.exceptions import BaseError, NotFoundError

    try:
        yield
    except (FileNotFoundError, NotFoundError) as e:
        raise NotFound(f"no object {path}") from e
    except BaseError as e:
        raise OSError(f"{path}: {e}") from e

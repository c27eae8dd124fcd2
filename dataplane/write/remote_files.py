"""The `write` kind for files in an object store: objects below a name for each partition, in a target that names its
owner.

Nothing is renamed there. A partition's rows are put under a fresh name; then its marker, in one put, says which names
count; then what counted before is deleted. What this target's owner has put is known by its name, so that whatever a
crash left behind is swept by the next write, and nothing of anybody else's ever is. Does not belong here: formats, and
local folders (files).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from dataplane.arrow import arrow_schema, batches, dumps
from dataplane.contract import Json, encode_key, failpoint
from dataplane.failure import TaskFailure
from dataplane.stores import Access, open_root, root_of, telling, uri_of
from dataplane.write.files import WRITERS, Options, check_format, file_name
from dataplane.write.marker import MARKER, RELEASE, VERSION


class RemoteTarget:
    """One prefix, owned. Every method may be repeated."""

    def __init__(self, job: Mapping[str, Json]) -> None:
        self.format: str = check_format(job["format"])
        self.options = Options.of(self.format, job["options"])
        self.owner: str = job["owner"]
        self.schema = job["schema"]
        self.root = root_of(job["path"])
        self.folder = job["path"].removeprefix(self.root).strip("/")
        self.store = open_root(self.root, Access.of(job))
        self._own = re.compile(rf"part-00000-{self._tag}-[0-9a-f]{{32}}\..*")

    @property
    def _tag(self) -> str:
        return sha256(self.owner.encode()).hexdigest()[:12]

    def open(self, _now_s: float) -> None:
        """Make the prefix ours, or fail with `target-owned`. Of two at once, the store lets one win."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        path = self._path(MARKER)
        with telling(uri_of(self.root, path)):
            try:
                obstore.put(self.store, path, self._marked(), mode="create", use_multipart=False)
            except AlreadyExistsError:
                if (other := self._owner_of(path)) != self.owner:
                    told = f"{uri_of(self.root, self.folder)} belongs to {other}: not written to. {RELEASE}"
                    raise TaskFailure("target-owned", told) from None
        failpoint("files-taken")

    def replace(self, partition: str, files: Iterable[Any]) -> Json:
        """Write one partition's rows in place of what it held. Result: `{rows, bytes}`."""
        folder = self._folder(partition)
        before = self._ours(folder)
        with TemporaryDirectory(prefix="headgate-") as scratch:
            file = Path(scratch) / "rows"
            rows = WRITERS[self.format](file, batches(files, arrow_schema(self.schema)), self.schema, self.options)
            size = file.stat().st_size
            name = file_name(self.format, self.options).replace(
                "part-00000", f"part-00000-{self._tag}-{uuid4().hex}", 1
            )
            self._put(f"{folder}/{name}", file)
        failpoint("files-put")
        self._put(f"{folder}/{MARKER}", self._marked([name]))
        failpoint("files-marked")
        self._delete(path for path in before if not path.endswith(f"/{MARKER}"))
        failpoint("files-written")
        return {"rows": rows, "bytes": size}

    def remove(self, partition: str) -> Json:
        found = self._ours(self._folder(partition))
        self._delete(path for path in found if path.endswith(f"/{MARKER}"))
        failpoint("files-unmarked")
        self._delete(path for path in found if not path.endswith(f"/{MARKER}"))
        return {"rows": 0, "bytes": 0}

    # objects

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.folder else name

    def _folder(self, partition: str) -> str:
        return self._path(encode_key(partition))

    def _marked(self, files: list[str] | None = None) -> bytes:
        more = {} if files is None else {"files": files}
        return dumps({"owner": self.owner, "version": VERSION, **more}).encode()

    def _ours(self, folder: str) -> list[str]:
        """What we have put there. TaskFailure where somebody else has put something, too."""
        import obstore

        with telling(uri_of(self.root, folder)):
            found = [meta["path"] for page in obstore.list(self.store, prefix=folder) for meta in page]
        for path in found:
            name = path.removeprefix(f"{folder}/")
            if not (self._owner_of(path) == self.owner if name == MARKER else self._own.fullmatch(name)):
                told = f"not written by us, so left alone: {uri_of(self.root, path)}"
                raise TaskFailure("target-occupied", told)
        return found

    def _owner_of(self, path: str) -> str | None:
        import obstore

        with telling(uri_of(self.root, path)):
            body = bytes(obstore.get(self.store, path).bytes())
        try:
            return str(json.loads(body)["owner"])
        except (ValueError, KeyError, TypeError):
            return None

    def _put(self, path: str, body: bytes | Path) -> None:
        import obstore

        with telling(uri_of(self.root, path)):
            obstore.put(self.store, path, body)

    def _delete(self, paths: Iterable[str]) -> None:
        import obstore

        for path in paths:
            with telling(uri_of(self.root, path)):
                try:
                    obstore.delete(self.store, path)
                except FileNotFoundError:
                    continue
            failpoint("files-swept")

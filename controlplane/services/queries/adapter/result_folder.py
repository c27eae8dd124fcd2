"""Results of queries in a folder of this machine: an Arrow stream, and beside it a record of its
origin; the same rows as a file of another form on request.

Bounded in bytes, each and together, and kept for a time after they were last read. Several
processes may share the folder.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from controlplane.services.queries.port import KeptResult, Pieces
from dataplane.contract.query_protocol import FileForm

LARGEST_BYTES = 256 << 20
MOST_BYTES = 1 << 30
KEPT_S = 3600.0
PIECE_BYTES = 1 << 18
FORMS: Mapping[FileForm, str] = {"csv": ".csv", "json": ".rows", "parquet": ".parquet"}
ENDINGS = (".arrow", ".part", *FORMS.values())
ID = re.compile(r"[0-9a-f]{64}")


class ResultFolder:
    """`QueryResults` in a folder, which is made when there is a result. `now` is as `time.time`."""

    def __init__(
        self,
        folder: Path,
        *,
        largest_bytes: int = LARGEST_BYTES,
        most_bytes: int = MOST_BYTES,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._folder, self._largest, self._most, self._now = folder, largest_bytes, most_bytes, now
        self._lock = threading.Lock()

    def find(self, id: str) -> KeptResult | None:
        """And keep it for longer."""
        if not ID.fullmatch(id):
            return None
        try:
            record = json.loads(self._about(id).read_bytes())
            now = self._now()
            if self._rows(id).stat().st_mtime < now - KEPT_S:
                return None
            os.utime(self._rows(id), (now, now))
        except (OSError, ValueError):
            return None
        tables = tuple((branch, dataset) for branch, dataset in record["tables"])
        return KeptResult(
            id,
            self._rows(id),
            rows=record["rows"],
            more=record["more"],
            tables=tables,
            generations=record["generations"],
        )

    def keep(
        self,
        id: str,
        tables: Sequence[tuple[str, str]],
        generations: Mapping[str, int],
        pieces: Pieces,
    ) -> Generator[bytes, None, KeptResult | None]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        written, size = self._folder / f"{uuid4().hex}.part", 0
        try:
            with written.open("xb") as file:
                while True:
                    try:
                        piece = next(pieces)
                    except StopIteration as end:
                        ran = end.value
                        break
                    size += len(piece)
                    if size <= self._largest:
                        file.write(piece)
                    yield piece
            if size > self._largest:
                return None
            record = {
                "rows": ran["rows"],
                "more": ran["more"],
                "tables": list(tables),
                "generations": dict(generations),
            }
            self._commit(id, written, record)
            return self.find(id)
        finally:
            pieces.close()
            written.unlink(missing_ok=True)

    def _commit(self, id: str, written: Path, record: dict[str, object]) -> None:
        now = self._now()
        os.utime(written, (now, now))
        about = written.with_suffix(".json")
        about.write_text(json.dumps(record))
        about.replace(self._about(id))
        for ending in FORMS.values():  # of rows that may stand in another order
            self._rows(id).with_suffix(ending).unlink(missing_ok=True)
        written.replace(self._rows(id))
        with self._lock:
            self._make_room()

    def _make_room(self) -> None:
        """Delete files beyond the bound, the least recently read first, and files not read for
        `KEPT_S`, also those of processes that died."""
        left, now = self._most, self._now()
        for path, at, size in sorted(self._files(), key=lambda file: -file[1]):
            left -= size
            if left < 0 or at < now - KEPT_S:
                path.unlink(missing_ok=True)
                if path.suffix == ".arrow":
                    self._about(path.stem).unlink(missing_ok=True)

    def _files(self) -> Iterator[tuple[Path, float, int]]:
        for path in (status for ending in ENDINGS for status in self._folder.glob(f"*{ending}")):
            with suppress(FileNotFoundError):
                status = path.stat()
                yield path, status.st_mtime, status.st_size

    def stream(self, query_result: KeptResult) -> Iterator[bytes]:
        return _pieces(query_result.path)

    def file(
        self, query_result: KeptResult, form: FileForm, make: Callable[[Path, Path], None]
    ) -> Iterator[bytes]:
        path = query_result.path.with_suffix(FORMS[form])
        if not path.exists():
            self._make_file(query_result, path, make)
        now = self._now()
        os.utime(path, (now, now))
        yield from _pieces(path)

    def _make_file(
        self, query_result: KeptResult, path: Path, make: Callable[[Path, Path], None]
    ) -> None:
        written = self._folder / f"{uuid4().hex}.part"
        try:
            make(query_result.path, written)
            now = self._now()
            os.utime(written, (now, now))
            written.replace(path)
        finally:
            written.unlink(missing_ok=True)
        with self._lock:
            self._make_room()

    def _rows(self, id: str) -> Path:
        return self._folder / f"{id}.arrow"

    def _about(self, id: str) -> Path:
        return self._folder / f"{id}.json"


def _pieces(path: Path) -> Iterator[bytes]:
    """A file that goes meanwhile is read to its end."""
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece

"""The own columns of one source file, as Spark would name them, without Spark.

None wherever Spark might see it otherwise: then Spark is asked. Does not belong here: types.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, BinaryIO, cast

from dataplane.contract import Json

LONGEST_LINE = 4_000_000  # characters of a header; 10,000 columns take a tenth
MOST_JSON = 64_000_000  # characters of JSON lines that are worth parsing here
_UNTOLD = (".deflate", ".lz4", ".snappy", ".zst", ".xz", ".zip")
_BROKEN = (ValueError, LookupError, RecursionError, EOFError, OSError, zlib.error, csv.Error)


def own_columns(file: BinaryIO, name: str, kind: str, options: Mapping[str, Json]) -> list[str] | None:
    """Column names in file order. `file` was read whole before, so that an OSError here means broken contents."""
    settings = _texts(options)
    try:
        match kind:
            case "text":
                return ["value"]
            case "binary":
                return ["content", "length"]
            case "csv":
                return _csv(file, name, settings)
            case "json":
                return _json(file, name, settings)
            case "parquet" | "orc":
                return _footer(file, kind)
            case _:
                return None
    except _BROKEN:
        return None


def _texts(options: Mapping[str, Json]) -> dict[str, str]:
    given = {k.lower(): v for k, v in options.items() if v is not None}
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in given.items()}


def _footer(file: BinaryIO, kind: str) -> list[str] | None:
    import pyarrow  # slow to import, and most listings need none

    try:
        if kind == "parquet":
            from pyarrow.parquet import ParquetFile

            return list(ParquetFile(file).schema_arrow.names)
        from pyarrow.orc import ORCFile

        return list(ORCFile(file).schema.names)
    except pyarrow.ArrowException:
        return None


@contextmanager
def _lines(file: BinaryIO, name: str, encoding: str) -> Iterator[IO[str] | None]:
    """The text of a file, uncompressed by its name as Hadoop does; None for what we cannot uncompress."""
    if name.endswith(_UNTOLD):
        yield None
        return
    text = io.TextIOWrapper(_uncompressed(file, name), encoding, "strict", newline=None)
    try:
        yield text
    finally:
        text.detach()


def _uncompressed(file: BinaryIO, name: str) -> BinaryIO:
    if name.endswith(".gz"):
        return cast("BinaryIO", gzip.GzipFile(fileobj=file))
    return cast("BinaryIO", bz2.BZ2File(file)) if name.endswith(".bz2") else file


# --- CSV ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dialect:
    """What of Spark's CSV options decides the names of columns."""

    separator: str
    quote: str
    escape: str
    comment: str
    null: str
    header: bool
    trim: bool

    @staticmethod
    def of(settings: Mapping[str, str]) -> Dialect:
        return Dialect(
            separator=_unescaped(settings.get("sep", settings.get("delimiter", ","))),
            quote=settings.get("quote", '"'),
            escape=settings.get("escape", "\\"),
            comment=settings.get("comment", ""),
            null=settings.get("nullvalue", ""),
            header=settings.get("header", "false").lower() == "true",
            trim="true" in (settings.get("ignoreleadingwhitespace"), settings.get("ignoretrailingwhitespace")),
        )


def _unescaped(separator: str) -> str:
    return {"\\t": "\t", "\\\\": "\\"}.get(separator, separator)


def _csv(file: BinaryIO, name: str, settings: Mapping[str, str]) -> list[str] | None:
    dialect = Dialect.of(settings)
    if "linesep" in settings or not dialect.separator:
        return None
    with _lines(file, name, _encoding(settings)) as text:
        line = _first_line(text, dialect) if text else None
    if line is None or len(line) >= LONGEST_LINE:
        return None
    cells = _cells(line.removesuffix("\n"), dialect) if line else []
    return None if cells is None else _named(cells, dialect)


def _encoding(settings: Mapping[str, str]) -> str:
    encoding = settings.get("encoding", settings.get("charset", "utf-8"))
    return "utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding


def _first_line(text: IO[str], dialect: Dialect) -> str:
    """The first line that is not blank and no comment; empty if there is none."""
    while line := text.readline(LONGEST_LINE):
        if line.strip() and not (dialect.comment and line.startswith(dialect.comment)):
            return line
    return ""


def _cells(line: str, dialect: Dialect) -> list[str] | None:
    if not dialect.quote or dialect.quote not in line:
        return line.split(dialect.separator)
    doubtful = () if dialect.escape == dialect.quote else (dialect.escape, dialect.quote * 2)
    if dialect.trim or len(dialect.separator) > 1 or any(text in line for text in doubtful):
        return None
    (cells,) = csv.reader(
        [line],
        delimiter=dialect.separator,
        quotechar=dialect.quote,
        doublequote=dialect.escape == dialect.quote,
        strict=True,
    )
    return cells


def _named(cells: Sequence[str], dialect: Dialect) -> list[str] | None:
    """Spark's names: `_c<i>` for what has none, the index appended to what comes twice."""
    if not dialect.header:
        return [f"_c{i}" for i in range(len(cells))]
    names = [cell.strip(" \t") if dialect.trim else cell for cell in cells]
    times, folded = Counter(names), Counter(n.lower() for n in names if n)
    if any(folded[n.lower()] != times[n] for n in names if n):
        return None  # differ by case only: it depends on a setting of the session
    return [f"_c{i}" if n in ("", dialect.null) else f"{n}{i}" if times[n] > 1 else n for i, n in enumerate(names)]


# --- JSON lines ---------------------------------------------------------------------------------


def _json(file: BinaryIO, name: str, settings: Mapping[str, str]) -> list[str] | None:
    if settings.get("multiline", "false").lower() == "true" or "linesep" in settings:
        return None
    with _lines(file, name, _encoding(settings)) as text:
        return _keys(text) if text else None


def _keys(text: IO[str]) -> list[str] | None:
    keys: dict[str, None] = {}
    seen = 0
    for line in text:
        seen += len(line)
        if seen > MOST_JSON:
            return None
        if line.strip():
            record = json.loads(line)
            if not isinstance(record, dict):
                return None
            keys.update(dict.fromkeys(record))
    return list(keys)

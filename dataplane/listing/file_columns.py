"""The own columns of one source file, as Spark would name them, with the fields of structs among
them, without Spark.

None wherever Spark might see it otherwise: then Spark reads the file.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, BinaryIO, TypeAlias, cast

from dataplane.contract.schemas import Json
from dataplane.contract.source_objects import NESTED
from dataplane.contract.staged_formats import FixedOptions, staged_options
from dataplane.listing import encodings
from dataplane.listing.avro_schema import avro_types, nested_names
from dataplane.listing.encodings import HEAD_BYTES, codec_of
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST_LINE = 4_000_000  # characters of a header; 10,000 columns take a tenth
LONGEST_RECORD = 16_000_000  # characters of one line of JSON; in memory it is several times that
MOST_JSON = 64_000_000  # characters of JSON lines that are worth parsing here
MOST_COLUMNS = 100_000  # of one file; more are keys that should be values
MOST_FIELDS = 2_000  # nested fields listed of one file: objects used as maps may have any number
_UNTOLD = (".deflate", ".lz4", ".snappy", ".zst", ".xz", ".zip")
_Fields: TypeAlias = "dict[str, _Fields]"  # with the fields within each
_BROKEN = (ValueError, LookupError, RecursionError, EOFError, OSError, zlib.error, csv.Error)


def own_columns(
    file: BinaryIO, name: str, kind: str, options: Mapping[str, Json]
) -> list[str] | None:
    """Column names in file order. `file` was read whole before, so that an OSError here means
    broken contents."""
    settings = _texts(options)
    try:
        match kind:
            case "text":
                return ["value"]
            case "binary":
                return ["content", "length"]
            case "csv":
                return _csv(file, name, settings)
            case "fixed":
                return _fixed(options)
            case "json":
                return _json(file, name, settings)
            case "parquet" | "orc":
                return _footer(file, kind)
            case "avro":
                return _header(file)
            case _:
                return None
    except _BROKEN:
        return None


def is_headerless(kind: str, options: Mapping[str, Json]) -> bool:
    """CSV whose columns have places, not names."""
    return kind in ("csv", "xlsx") and not CsvDialect.of(_texts(options)).header


def is_wide(options: Mapping[str, Json]) -> bool:
    """Text in UTF-16 or UTF-32."""
    return encodings.is_wide(_encoding(_texts(options)))


def _texts(options: Mapping[str, Json]) -> dict[str, str]:
    texts = {k.lower(): v for k, v in options.items() if v is not None}
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in texts.items()}


def _footer(file: BinaryIO, kind: str) -> list[str] | None:
    import pyarrow  # slow to import, and most listings need none

    try:
        if kind == "parquet":
            from pyarrow.parquet import ParquetFile

            return _with_fields(ParquetFile(file).schema_arrow)
        from pyarrow.orc import ORCFile

        return _with_fields(ORCFile(file).schema)
    except pyarrow.ArrowException:
        return None


def _header(file: BinaryIO) -> list[str] | None:
    types = avro_types(file)
    return _names_of({n: dict.fromkeys(nested_names(t, n, NESTED)) for n, t in types.items()})


def _with_fields(schema: Iterable[pa.Field]) -> list[str] | None:
    """Each column, followed by the fields in it."""
    columns = list(schema)
    return _names_of({f.name: dict.fromkeys(_fields(f.type, f.name)) for f in columns})


def _fields(kind: pa.DataType, path: str) -> Iterator[str]:
    """The fields of structs, be they in lists; values of a map have no path of their own."""
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind):
        yield from _fields(kind.value_type, path)
    elif types.is_struct(kind):
        for i in range(kind.num_fields):
            yield (own := f"{path}{NESTED}{kind.field(i).name}")
            yield from _fields(kind.field(i).type, own)


def _names_of(columns: Mapping[str, Mapping[str, None]]) -> list[str] | None:
    if any(NESTED in name for name in columns):
        return None
    if sum(map(len, columns.values())) > MOST_FIELDS:
        return list(columns)
    return [name for column, fields in columns.items() for name in (column, *fields)]


def _fixed(options: Mapping[str, Json]) -> list[str]:
    settings = staged_options("fixed", options)
    return [c.name for c in settings.columns] if isinstance(settings, FixedOptions) else []


@contextmanager
def _lines(file: BinaryIO, name: str, encoding: str) -> Iterator[IO[str] | None]:
    """The text of a file, uncompressed by its name as Hadoop does; None for a compression that we
    do not support."""
    if name.endswith(_UNTOLD):
        yield None
        return
    plain = _uncompressed(file, name)
    codec = codec_of(encoding, plain.read(HEAD_BYTES))
    plain.seek(0)
    text = io.TextIOWrapper(plain, codec, "strict", newline=None)
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
class CsvDialect:
    """The CSV options of Spark that decide the names of columns."""

    separator: str
    quote: str
    escape: str
    comment: str
    null: str
    header: bool
    trim: bool

    @staticmethod
    def of(settings: Mapping[str, str]) -> CsvDialect:
        return CsvDialect(
            separator=_unescaped(settings.get("sep", settings.get("delimiter", ","))),
            quote=settings.get("quote", '"'),
            escape=settings.get("escape", "\\"),
            comment=settings.get("comment", ""),
            null=settings.get("nullvalue", ""),
            header=settings.get("header", "false").lower() == "true",
            trim="true"
            in (settings.get("ignoreleadingwhitespace"), settings.get("ignoretrailingwhitespace")),
        )


def _unescaped(separator: str) -> str:
    return {"\\t": "\t", "\\\\": "\\"}.get(separator, separator)


def _csv(file: BinaryIO, name: str, settings: Mapping[str, str]) -> list[str] | None:
    dialect = CsvDialect.of(settings)
    if "linesep" in settings or not dialect.separator:
        return None
    with _lines(file, name, _encoding(settings)) as text:
        line = _first_line(text, dialect) if text else None
    if line is None or len(line) >= LONGEST_LINE:
        return None
    cells = _cells(line.removesuffix("\n"), dialect) if line else []
    _check_width(len(cells or ()), name)
    return None if cells is None else _named(cells, dialect)


def _check_width(columns: int, name: str) -> None:
    """Refuse a wide file before Spark analyses it: so many columns would cost a driver its
    memory."""
    if columns > MOST_COLUMNS:
        message = f"{name} has more than {MOST_COLUMNS} columns: keys that differ from row to row belong in a column"
        raise TaskFailure("too-many-columns", message, file=name)


def _encoding(settings: Mapping[str, str]) -> str:
    return settings.get("encoding", settings.get("charset", "utf-8"))


def _first_line(text: IO[str], dialect: CsvDialect) -> str:
    """The first line that is not blank and no comment; empty if there is none."""
    characters = 0
    while (line := text.readline(LONGEST_LINE)) and characters <= MOST_JSON:
        characters += len(line)
        if line.strip() and not (dialect.comment and line.startswith(dialect.comment)):
            return line
    return ""


def _cells(line: str, dialect: CsvDialect) -> list[str] | None:
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


def _named(cells: Sequence[str], dialect: CsvDialect) -> list[str] | None:
    """Spark's names: `_c<i>` for a column without one, the index appended to a repeated one. None
    if Spark has to decide."""
    if not dialect.header:
        return [f"_c{i}" for i in range(len(cells))]
    names = [cell.strip(" \t") if dialect.trim else cell for cell in cells]
    times, folded = Counter(names), Counter(n.lower() for n in names if n)
    if any(folded[n.lower()] != times[n] for n in names if n):
        return None  # differ by case only: it depends on a setting of the session
    if any(NESTED in n for n in names):
        return None
    return [
        f"_c{i}" if n in ("", dialect.null) else f"{n}{i}" if times[n] > 1 else n
        for i, n in enumerate(names)
    ]


# --- JSON lines ---------------------------------------------------------------------------------


def _json(file: BinaryIO, name: str, settings: Mapping[str, str]) -> list[str] | None:
    if settings.get("multiline", "false").lower() == "true" or "linesep" in settings:
        return None
    with _lines(file, name, _encoding(settings)) as text:
        return _keys(text, name) if text else None


def _keys(text: IO[str], name: str) -> list[str] | None:
    shape = _Shape()
    characters = 0
    while line := text.readline(LONGEST_RECORD + 1):
        characters += len(line)
        if characters > MOST_JSON or len(line) > LONGEST_RECORD:
            return None
        if line.strip():
            record = json.loads(line)
            if not isinstance(record, dict):
                return None
            shape.add(record)
            _check_width(len(shape.fields), name)
    return _names_of(
        {name: dict.fromkeys(_paths(fields, name)) for name, fields in shape.fields.items()}
    )


class _Shape:
    """The fields of records, and of objects in them, in order of first appearance; a few too many
    at most."""

    __slots__ = ("count", "fields")

    def __init__(self) -> None:
        self.fields: _Fields = {}
        self.count = 0  # of those within others

    def add(self, record: Mapping[str, Json]) -> None:
        for name, value in record.items():
            fields = self.fields.get(name)
            if fields is None:
                fields = self.fields[name] = {}
            if isinstance(value, dict | list):
                self._add(fields, value)

    def _add(self, fields: _Fields, value: Json) -> None:
        if isinstance(value, list):
            for item in value:
                if isinstance(item, dict | list):
                    self._add(fields, item)
            return
        for name, inner in value.items():
            shape = fields.get(name)
            if shape is None:
                if self.count > MOST_FIELDS:
                    return
                self.count += 1
                shape = fields[name] = {}
            if isinstance(inner, dict | list):
                self._add(shape, inner)


def _paths(fields: _Fields, path: str) -> Iterator[str]:
    for name, inner in fields.items():
        yield (own := f"{path}{NESTED}{name}")
        yield from _paths(inner, own)

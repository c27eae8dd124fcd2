"""Committed rows as Arrow batches, and their values as plain text and JSON."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from dataplane.contract.schemas import Json, Schema
from dataplane.contract.types import decimal_digits
from dataplane.task_failures import DAMAGED, DAMAGED_MADE_AGAIN, GONE, MADE_AGAIN, TaskFailure

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 16_384
BATCH_BYTES = 16 << 20  # in memory
_NUMBER_BYTES = 8


# --- types --------------------------------------------------------------------------------------


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow form of Spark's JSON of a struct type; ValueError for types that have none."""
    import pyarrow as pa

    return pa.schema([(f["name"], arrow_type(f["type"])) for f in schema["fields"]])


def arrow_type(kind: Json) -> pa.DataType:
    import pyarrow as pa

    match kind:
        case {"type": "struct", "fields": fields}:
            return pa.struct([(f["name"], arrow_type(f["type"])) for f in fields])
        case {"type": "array", "elementType": element}:
            return pa.list_(arrow_type(element))
        case {"type": "map", "keyType": key, "valueType": value}:
            return pa.map_(arrow_type(key), arrow_type(value))
        case str() if digits := decimal_digits(kind):
            return pa.decimal128(*digits)
        case _:
            return _plain_type(kind)


def _plain_type(kind: Json) -> pa.DataType:
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "binary": pa.binary(),
        "boolean": pa.bool_(),
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "void": pa.null(),
    }
    if kind not in types:
        raise ValueError(f"no Arrow type for {kind}")
    return types[kind]


# --- rows ---------------------------------------------------------------------------------------


def batches(files: Iterable[Any], schema: pa.Schema, skip: int = 0) -> Iterator[pa.RecordBatch]:
    """All rows of Parquet files (paths, or what pyarrow reads from), in order, under one schema;
    columns that a file lacks are NULL, and others of it are not read. A batch has up to BATCH_ROWS
    rows and BATCH_BYTES, or one row.

    The first `skip` rows are left out, whole files of them unread. TaskFailure for a file that is
    not there, or that is not as it was written.
    """
    from pyarrow.parquet import ParquetFile

    for source in files:
        with _explaining_damage(_name_of(source)), ParquetFile(source, **_MICROSECONDS) as file:
            rows = _rows_of(file)
            if skip >= rows:
                skip -= rows
                continue
            columns = _read_columns(file, schema)
            for batch in bounded_batches(file, source, _MICROSECONDS, columns):
                rows -= batch.num_rows
                part = batch.slice(skip)
                skip = max(0, skip - batch.num_rows)
                if part.num_rows:
                    yield _under(part, schema)
            if rows:
                raise OSError("it has other rows than its footer says")


_Options: TypeAlias = Mapping[str, Any]  # of `ParquetFile`
AS_STORED: _Options = {"page_checksum_verification": True}
_MICROSECONDS: _Options = {**AS_STORED, "coerce_int96_timestamp_unit": "us"}


def bounded_batches(
    file: Any, source: Any, options: _Options, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """All rows of a file that was opened from a source with these options, in batches as those of
    `batches`. Errors are Arrow's own.

    A file of a few bytes may have one long text in a dictionary, for thousands of rows. Where these
    may be too many bytes, texts stay in their dictionaries until a batch is cut.
    """
    from pyarrow.parquet import ParquetFile

    rows = _batch_rows(file)
    texts = _repeated_texts(file.metadata)
    if not texts:
        yield from file.iter_batches(rows, columns=columns)
        return
    with ParquetFile(source, metadata=file.metadata, read_dictionary=texts, **options) as encoded:
        # Each row group by itself: nested values cannot be read out of two dictionaries at once
        for group in range(file.num_row_groups):
            for batch in encoded.iter_batches(rows, [group], columns=columns):
                yield from _decoded(batch, file.schema_arrow)


def _batch_rows(file: Any) -> int:
    """Rows of this file that take BATCH_BYTES, by their mean; texts count as they are stored."""
    size = 0
    for group in _groups(file.metadata):
        for at in range(group.num_columns):
            chunk = group.column(at)
            width = file.schema.column(at).length or _NUMBER_BYTES
            size += max(chunk.total_uncompressed_size, chunk.num_values * width)
    rows: int = BATCH_BYTES * file.metadata.num_rows // max(1, size)
    return max(1, min(BATCH_ROWS, rows))


def _repeated_texts(footer: Any) -> list[str]:
    """Paths of the columns whose texts stand in dictionaries, where all texts together may take more
    than BATCH_BYTES in memory: no text is longer than its column."""
    paths: set[str] = set()
    size = 0
    for group in _groups(footer):
        for at in range(group.num_columns):
            chunk = group.column(at)
            if chunk.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page:
                paths.add(chunk.path_in_schema)
                size += chunk.num_values * chunk.total_uncompressed_size
    return sorted(paths) if size > BATCH_BYTES else []


def _groups(footer: Any) -> Iterator[Any]:
    return map(footer.row_group, range(footer.num_row_groups))


def _decoded(batch: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """A batch whose texts are in dictionaries, in parts of BATCH_BYTES or of one row, with the types
    of a schema."""
    import pyarrow as pa

    rows = batch.num_rows
    if rows > 1 and sum(map(_decoded_bytes, batch.columns)) > BATCH_BYTES:
        for part in (range(rows // 2), range(rows // 2, rows)):
            # `slice` would leave lists whole, and their cast would decode all of them
            yield from _decoded(batch.take(pa.array(part)), schema)
        return
    fields = [schema.field(name) for name in batch.schema.names]
    columns = [column.cast(f.type) for column, f in zip(batch.columns, fields, strict=True)]
    yield pa.record_batch(columns, schema=pa.schema(fields))


def _decoded_bytes(values: pa.Array) -> int:
    """How much values take when none is in a dictionary."""
    import pyarrow as pa
    from pyarrow import compute

    kind = values.type
    if pa.types.is_dictionary(kind):
        lengths = compute.binary_length(values.dictionary).take(values.indices)
        return int(compute.sum(lengths).as_py() or 0)
    if pa.types.is_struct(kind):
        return sum(map(_decoded_bytes, values.flatten()))
    if pa.types.is_list(kind):
        return _decoded_bytes(values.flatten())
    if pa.types.is_map(kind):  # `flatten` knows no maps, and `keys` are not of a slice alone
        first, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
        return sum(_decoded_bytes(each[first:end]) for each in (values.keys, values.items))
    return int(values.nbytes)


def _read_columns(file: Any, schema: pa.Schema) -> list[str]:
    """The columns to read. If the schema has none of the file's, one is read: without any column a
    reader gives no rows."""
    have = file.schema_arrow.names
    names = set(schema.names)
    return [name for name in have if name in names] or have[:1]


def raw_batches(source: Any, name: str = "") -> Iterator[pa.RecordBatch]:
    """All rows of one Parquet file as they are stored, in batches as those of `batches`.
    TaskFailure, which may call the file by another `name`, where it is not as it was written."""
    from pyarrow.parquet import ParquetFile

    with _explaining_damage(name or _name_of(source)), ParquetFile(source, **AS_STORED) as file:
        rows = _rows_of(file)
        for batch in bounded_batches(file, source, AS_STORED):
            rows -= batch.num_rows
            yield batch
        if rows:
            raise OSError("it has other rows than its footer says")


def check_whole(file: str, name: str) -> None:
    """TaskFailure for a Parquet file that is not as it was written."""
    for _ in raw_batches(file, name):
        pass


_SPARKS = b"org.apache.spark.sql.parquet.row.metadata"


def _rows_of(file: Any) -> int:
    """The number of rows, where the footer agrees with itself: it has no checksum, but states rows
    and columns twice."""
    footer = file.metadata
    rows: int = footer.num_rows
    if sum(footer.row_group(i).num_rows for i in range(footer.num_row_groups)) != rows:
        raise OSError("its footer tells two numbers of rows")
    spark_schema = (footer.metadata or {}).get(_SPARKS)
    if spark_schema is not None and not _has_columns(file.schema_arrow, json.loads(spark_schema)):
        raise OSError("its footer tells two schemas")
    return rows


def _has_columns(own_schema: pa.Schema, schema: Schema) -> bool:
    """Whether a file has these columns, all in all; of nested ones only the names are looked at."""
    if [(f.name, f.nullable) for f in own_schema] != [
        (f["name"], f["nullable"]) for f in schema["fields"]
    ]:
        return False
    plain = [(i, f["type"]) for i, f in enumerate(schema["fields"]) if isinstance(f["type"], str)]
    return all(
        kind == "variant" or own_schema.field(i).type == arrow_type(kind) for i, kind in plain
    )


def _name_of(source: Any) -> str:
    return (
        source
        if isinstance(source, str)
        else str(getattr(getattr(source, "raw", None), "path", "a file"))
    )


@contextmanager
def _explaining_damage(name: str) -> Iterator[None]:
    """Errors of Arrow's as TaskFailure. A store that fails names the file first, and its error goes
    on as it is."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError as e:
        raise TaskFailure(GONE, f"{name} is not there: {MADE_AGAIN}", "infrastructure") from e
    except pa.ArrowMemoryError:
        raise
    except (pa.ArrowException, ValueError, KeyError, TypeError, OSError) as e:
        is_of_store = isinstance(e, OSError) and (e.errno is not None or str(e).startswith(name))
        if is_of_store:
            raise
        raise TaskFailure(DAMAGED, f"{name}: {e}: {DAMAGED_MADE_AGAIN}", "infrastructure") from e


def no_rows(schema: Schema) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema=arrow_schema(schema))


def _under(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    def column(field: pa.Field) -> pa.Array:
        at = batch.schema.get_field_index(field.name)
        return (
            batch.column(at).cast(field.type) if at >= 0 else pa.nulls(batch.num_rows, field.type)
        )

    return pa.record_batch([column(f) for f in schema], schema=schema)


# --- values -------------------------------------------------------------------------------------


def plain_rows(batch: pa.RecordBatch, schema: Schema) -> Iterator[dict[str, Json]]:
    """Rows as JSON can hold them: decimals, times (ISO 8601; instants with Z) and binary values
    (base64) are text."""
    names = batch.schema.names
    columns = [plain_column(batch.column(i), f["type"]) for i, f in enumerate(schema["fields"])]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def flat(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """The batch with every column that CSV cannot hold as text: nested values as JSON."""
    import pyarrow as pa

    columns = [_flat(batch.column(i), f["type"]) for i, f in enumerate(schema["fields"])]
    return pa.record_batch(columns, names=batch.schema.names)


def plain_column(column: pa.Array, kind: Json) -> list[Json]:
    """Values of a column of a Spark type, as in `plain_rows`."""
    if kind in ("timestamp", "timestamp_ntz", "date"):
        return list(_times(column, kind).to_pylist())
    if kind in _AS_IS:
        return list(column.to_pylist())
    convert = plain_value(kind)
    return [convert(v) for v in column.to_pylist()]


def _flat(column: pa.Array, kind: Json) -> pa.Array:
    import pyarrow as pa

    if kind in ("timestamp", "timestamp_ntz"):
        return _times(column, kind)
    if (
        kind in _AS_IS
        or kind in ("float", "double", "date", "void")
        or _is_short_decimal(column.type)
    ):
        return column
    convert = plain_value(kind)
    texts = (None if v is None else convert(v) for v in column.to_pylist())
    return pa.array(
        [t if t is None or isinstance(t, str) else dumps(t) for t in texts], pa.string()
    )


def _is_short_decimal(kind: pa.DataType) -> bool:
    """Whether CSV shows it without an exponent."""
    import pyarrow as pa

    return bool(pa.types.is_decimal(kind)) and kind.scale <= 6


def _times(column: pa.Array, kind: str) -> pa.Array:
    """ISO 8601 text by Arrow, which also knows years that Python does not."""
    import pyarrow as pa
    from pyarrow import compute

    if kind == "date":
        return column.cast(pa.string())
    local = column.cast(pa.timestamp("us"))
    return compute.strftime(
        local, format="%Y-%m-%dT%H:%M:%S" + ("Z" if kind == "timestamp" else "")
    )


_AS_IS = ("string", "boolean", "byte", "short", "integer", "long")


def plain_value(kind: Json) -> Callable[[Any], Json]:
    """The function that turns a value of a type, as Arrow gives it to Python, into a JSON value."""
    match kind:
        case {"type": "struct", "fields": fields}:
            parts = {f["name"]: plain_value(f["type"]) for f in fields}
            return _maybe(lambda v: {name: part(v[name]) for name, part in parts.items()})
        case {"type": "array", "elementType": element}:
            item = plain_value(element)
            return _maybe(lambda v: [item(e) for e in v])
        case {"type": "map", "keyType": key_type, "valueType": value_type}:
            key, value = plain_value(key_type), plain_value(value_type)
            return _maybe(lambda v: {_name(key(k)): value(e) for k, e in v})
        case _:
            return _maybe(_scalar)


def _maybe(convert: Callable[[Any], Json]) -> Callable[[Any], Json]:
    return lambda value: None if value is None else convert(value)


def _name(key: Json) -> str:
    return key if isinstance(key, str) else dumps(key)


def _scalar(value: Any) -> Json:
    match value:
        case Decimal():
            return format(value, "f")
        case datetime():
            text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
            return text if value.tzinfo is None else f"{text}Z"
        case date():
            return value.isoformat()
        case bytes():
            return b64encode(value).decode()
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case _:
            return value


def dumps(value: Json | Mapping[str, Json]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

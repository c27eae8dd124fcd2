"""Values of messages in Avro: the columns that a schema has, and the values in bytes that another
schema wrote.

In front of each value stand a zero and the id of the schema under which it was written; it is read
under the schema that the slice was listed with, by Avro's own rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dataplane.connectors.kafka.schema_registry import Registry
from dataplane.contract.schemas import (
    Json,
    Schema,
    array_of,
    canonical_schema,
    field_of,
    fields_within,
    map_of,
    struct_of,
)
from dataplane.contract.source_objects import NESTED
from dataplane.fragments.arrow import arrow_schema
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    import pyarrow as pa

HEAD = 5  # bytes in front of a value
DIGITS = 38  # of a decimal, at most
_TIMES = (
    "timestamp-millis",
    "timestamp-micros",
    "local-timestamp-millis",
    "local-timestamp-micros",
)
_LOGICAL = ("decimal", "date", *_TIMES)
_PLAIN = {
    "null": "string",
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Convert: TypeAlias = Callable[[Any], Any]
Schemas: TypeAlias = "Callable[[int], WrittenUnder]"  # by id; TaskFailure where one cannot be had


class AvroForm(NamedTuple):
    """The type of a column, and what makes a value for Arrow of what Avro gives; None where it is
    the same."""

    kind: Json
    convert: Convert | None = None


# --- schemas --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WrittenUnder:
    """A schema of a registry: as the decoder takes it, and the columns of its records."""

    id: int
    parsed: Json
    whole: Json  # with no names in place of types

    @property
    def form(self) -> AvroForm:
        if not isinstance(self.whole, Mapping) or self.whole.get("type") != "record":
            raise TaskFailure(
                "not-supported", f"schema {self.id} is none of records, which alone have columns"
            )
        return form(self.whole)

    @property
    def columns(self) -> Schema:
        return canonical_schema(self.form.kind)


@lru_cache(maxsize=256)
def written(registry: Registry, id: int) -> WrittenUnder:
    """The schema of an id in a registry; it never changes. TaskFailure where there is none, or it
    cannot be read."""
    return parsed(id, registry.texts(id))


def parsed(id: int, texts: Sequence[str]) -> WrittenUnder:
    """The last of these, which may name those before it."""
    parse = _parser()
    named: dict[str, Json] = {}
    try:
        *others, own = [_without_meanings(json.loads(text)) for text in texts]
        for other in others:
            parse(other, named_schemas=named)
        return WrittenUnder(
            id,
            parse(own, named_schemas=dict(named)),
            parse(own, named_schemas=dict(named), expand=True),
        )
    except Exception as e:
        raise TaskFailure(
            "not-supported", f"schema {id} is no Avro that can be read: {_error_text(e)}"
        ) from e


def _parser() -> Callable[..., Json]:
    try:
        from fastavro.schema import parse_schema
    except ImportError as e:
        raise TaskFailure(
            "avro-missing", "a library for Avro is needed: pip install 'headgate[kafka]'"
        ) from e
    return parse_schema


def _without_meanings(schema: Json) -> Json:
    """Without logical types that no type of a column stands for: their values stay the plain ones
    below."""
    match schema:
        case list():
            return [_without_meanings(part) for part in schema]
        case Mapping():
            fields = {k: v for k, v in schema.items() if k != "logicalType" or v in _LOGICAL}
            return {k: v if k == "default" else _without_meanings(v) for k, v in fields.items()}
        case _:
            return schema


def own_columns(schema: Schema) -> list[str]:
    """Columns, and the fields in each; values of a map have no path of their own."""
    return list(_places(schema["fields"], ""))


def _places(fields: Iterable[Json], place: str) -> Iterator[str]:
    for field in fields:
        yield place + field["name"]
        yield from _places(fields_within(field["type"]), place + field["name"] + NESTED)


# --- types ----------------------------------------------------------------------------------------


def form(schema: Json) -> AvroForm:
    """The form of a schema's values. TaskFailure for a type that no column can hold."""
    match schema:
        case list():
            return _union(schema)
        case {"type": "record" | "error", "fields": fields}:
            return _record({f["name"]: form(f["type"]) for f in fields})
        case {"type": "array", "items": items}:
            return _array(form(items))
        case {"type": "map", "values": values}:
            return _map(form(values))
        case {"type": "enum"}:
            return AvroForm("string")
        case {"type": "bytes" | "fixed", "logicalType": "decimal"}:
            return _decimal(schema["precision"], schema.get("scale", 0))
        case {"type": "fixed"} | {"type": "bytes"} | "bytes":
            return AvroForm("binary", _bytes)
        case {"type": "int", "logicalType": "date"}:
            return AvroForm("date", _date)
        case {"type": "long", "logicalType": meaning} if meaning in _TIMES:
            return _timestamp(meaning)
        case {"type": inner}:
            return form(inner)
        case str() if schema in _PLAIN:
            return AvroForm(_PLAIN[schema])
        case _:
            raise TaskFailure(
                "not-supported", f"a type that refers to itself has no columns: {schema}"
            )


def _union(schemas: list[Json]) -> AvroForm:
    """One type, or nothing."""
    some = [schema for schema in schemas if schema != "null" and schema != {"type": "null"}]
    if len(some) > 1:
        raise TaskFailure(
            "not-supported", "a union of several types besides null has no type as a column"
        )
    if not some:
        return AvroForm("string")
    member = form(some[0])
    if (convert := member.convert) is None:
        return member
    return AvroForm(member.kind, lambda value: None if value is None else convert(value))


def _record(forms: Mapping[str, AvroForm]) -> AvroForm:
    kind = canonical_schema(
        struct_of(field_of(name, member.kind) for name, member in forms.items())
    )
    converts = {name: member.convert for name, member in forms.items() if member.convert}
    if not converts:
        return AvroForm(kind)
    return AvroForm(
        kind, lambda row: row | {name: convert(row[name]) for name, convert in converts.items()}
    )


def _array(item: AvroForm) -> AvroForm:
    kind, convert = array_of(item.kind), item.convert
    return AvroForm(
        kind, None if convert is None else lambda items: [convert(element) for element in items]
    )


def _map(value: AvroForm) -> AvroForm:
    convert = value.convert or (lambda element: element)
    return AvroForm(
        map_of("string", value.kind),
        lambda entries: [(key, convert(element)) for key, element in entries.items()],
    )


# Values that are defaults of a schema come as they stand in its JSON: bytes as texts, times as
# numbers.


def _bytes(value: bytes | str) -> bytes:
    return value.encode("latin-1") if isinstance(value, str) else value


def _decimal(precision: int, scale: int) -> AvroForm:
    if precision > DIGITS:
        raise TaskFailure("not-supported", f"a decimal of {precision} digits; at most {DIGITS} fit")

    def convert(value: Decimal | bytes | str) -> Decimal:
        if isinstance(value, Decimal):
            return value
        # Arithmetic would round
        return Decimal(f"{int.from_bytes(_bytes(value), 'big', signed=True)}e{-scale}")

    return AvroForm(f"decimal({precision},{scale})", convert)


def _date(value: date | int) -> date:
    return value if isinstance(value, date) else date(1970, 1, 1) + timedelta(days=value)


def _timestamp(meaning: str) -> AvroForm:
    is_local, unit = meaning.startswith("local-"), meaning.rpartition("-")[2]
    epoch = _EPOCH.replace(tzinfo=None) if is_local else _EPOCH
    step = timedelta(milliseconds=1) if unit == "millis" else timedelta(microseconds=1)

    def convert(value: datetime | int) -> datetime:
        return value if isinstance(value, datetime) else epoch + step * value

    return AvroForm("timestamp_ntz" if is_local else "timestamp", convert)


# --- values ---------------------------------------------------------------------------------------


def decoded(schemas: Schemas, reader: int, values: pa.Array) -> pa.Array:
    """For each value `{value, error}`: the record under the schema `reader`, or why there is none;
    neither for NULL. TaskFailure where a schema cannot be had: that is no fault of the message."""
    import pyarrow as pa

    to = schemas(reader)
    kind, convert = pa.struct(arrow_schema(to.columns)), to.form.convert
    decodings = [_decode(schemas, to, convert, value) for value in values.to_pylist()]
    rows, errors = [row for row, _ in decodings], [error for _, error in decodings]
    try:
        records = pa.array(rows, kind)
    except (pa.ArrowException, OverflowError):
        fitting = [_fitting(row, kind) for row in rows]
        records = pa.concat_arrays([records_of_schema for records_of_schema, _ in fitting])
        errors = [error or new for error, (_, new) in zip(errors, fitting, strict=True)]
    return pa.StructArray.from_arrays(
        [records, pa.array(errors, pa.string())], names=["value", "error"]
    )


def _decode(
    schemas: Schemas, to: WrittenUnder, convert: Convert | None, value: bytes | None
) -> tuple[Any, str | None]:
    if value is None:
        return None, None
    if len(value) < HEAD or value[0] != 0:
        return None, "it does not begin with a zero and the id of a schema"
    source = schemas(int.from_bytes(value[1:HEAD], "big"))
    try:
        record = _record_of(value, source, to)
        return (convert(record) if convert else record), None
    except Exception as e:  # noqa: BLE001  # any fault of the bytes is reported of their message
        return (
            None,
            f"it is no value of schema {source.id} that schema {to.id} can read: {_error_text(e)}",
        )


def _record_of(value: bytes, source: WrittenUnder, to: WrittenUnder) -> Any:
    from fastavro import schemaless_reader

    file = BytesIO(value)
    file.seek(HEAD)
    record = schemaless_reader(file, source.parsed, None if source.id == to.id else to.parsed)
    if left := len(value) - file.tell():
        raise ValueError(f"{left} bytes are left over")
    return record


def _fitting(row: Any, kind: pa.DataType) -> tuple[pa.Array, str | None]:
    """A row by itself, to find out which does not fit its types."""
    import pyarrow as pa

    try:
        return pa.array([row], kind), None
    except (pa.ArrowException, OverflowError) as e:
        return pa.nulls(1, kind), f"it does not fit its type: {_error_text(e)}"


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

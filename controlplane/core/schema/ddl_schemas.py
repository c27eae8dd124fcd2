"""Schemas as values: DDL text to Spark's JSON, and the schema policies of read components."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from controlplane.core.errors import HeadgateError
from dataplane.contract.schemas import Schema, Type, field_of, struct_of
from dataplane.contract.source_objects import NESTED

SIMPLE = {
    "TINYINT": "byte",
    "SMALLINT": "short",
    "INT": "integer",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BOOLEAN": "boolean",
    "BINARY": "binary",
    "VARBINARY": "binary",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp",
    "TIMESTAMPLTZ": "timestamp",
    "TIMESTAMPNTZ": "timestamp_ntz",
    "TEXT": "string",
    "VARCHAR": "string",
    "CHAR": "string",
}
_NEGATIVE_SCALE = re.compile(
    r"\b(?:DECIMAL|DEC|NUMERIC)\s*\(\s*(\d{1,9})\s*,\s*-\s*(\d{1,9})\s*\)", re.IGNORECASE
)
EMPTY_SCHEMA: Schema = {"type": "struct", "fields": []}


class InvalidSchema(HeadgateError):
    """A `schema:` text that is no list of columns and types."""

    code = "invalid-schema"


def parse_ddl(text: str) -> Schema:
    """Read `name TYPE, ...` as Spark's DDL schemas are written, into canonical JSON. Raises
    InvalidSchema, also for what a schema cannot keep: NOT NULL, keys, lengths (`core.schema.ddl`
    says where, and what to write)."""
    try:
        table = sqlglot.parse_one(
            f"CREATE TABLE t ({_NEGATIVE_SCALE.sub(_without_fraction, text)})", read="spark"
        )
    except (SqlglotError, RecursionError) as e:
        raise InvalidSchema(f"cannot read {text[:80]!r} as columns and types") from e
    schema = table.this if isinstance(table, exp.Create) else None
    columns = schema.expressions if isinstance(schema, exp.Schema) else []
    if not columns:
        raise InvalidSchema(f"cannot read {text[:80]!r} as columns and types")
    return struct(_column(c) for c in columns)


def _without_fraction(match: re.Match[str]) -> str:
    """`NUMERIC(5, -2)` of PostgreSQL is a number of five digits and two zeros, which Spark has no
    type for."""
    return f"DECIMAL({int(match[1]) + int(match[2])}, 0)"


def struct(fields: Iterable[tuple[str, Type]]) -> Schema:
    return struct_of(field_of(name, kind) for name, kind in fields)


def types(schema: Schema) -> dict[str, Type]:
    """Column name -> type, in order."""
    return {f["name"]: f["type"] for f in schema["fields"]}


def _column(column: exp.Expression) -> tuple[str, Type]:
    if not isinstance(column, exp.ColumnDef) or not isinstance(
        column.args.get("kind"), exp.DataType
    ):
        raise InvalidSchema(f"{column.sql(dialect='spark')!r} is no column with a type")
    for constraint in column.args.get("constraints") or ():
        kind = constraint.args.get("kind")
        is_kept = isinstance(kind, exp.CommentColumnConstraint) or (
            isinstance(kind, exp.NotNullColumnConstraint) and kind.args.get("allow_null")
        )
        if not is_kept:
            raise InvalidSchema(
                f"{constraint.sql(dialect='spark')} is not kept: leave it out of {column.name}"
            )
    return column.name, _type(column.args["kind"])


def _type(kind: exp.Expression) -> Type:
    if not isinstance(kind, exp.DataType):
        raise InvalidSchema(f"{kind.sql(dialect='spark')!r} is no type")
    name, inner = str(kind.this.name), kind.expressions
    match name:
        case "DECIMAL":
            numbers = _sizes(inner) or [10]
            return f"decimal({numbers[0]},{numbers[1] if len(numbers) > 1 else 0})"
        case "ARRAY" if len(inner) == 1:
            return {"type": "array", "elementType": _type(inner[0]), "containsNull": True}
        case "MAP" if len(inner) == 2:
            key, value = map(_type, inner)
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
        case "STRUCT" if inner:
            return struct(_column(f) for f in inner)
        case _ if name in SIMPLE and not inner:
            return SIMPLE[name]
        case _ if name in SIMPLE:
            raise InvalidSchema(
                f"the size of {kind.sql(dialect='spark')} is not kept: leave it out"
            )
    raise InvalidSchema(f"type {kind.sql(dialect='spark')} is not supported here")


def _sizes(parameters: Iterable[exp.Expression]) -> list[int]:
    names = [p.name for p in parameters]
    if not all(name.isascii() and name.isdigit() for name in names):
        raise InvalidSchema(f"DECIMAL({', '.join(names)[:40]}) is no type")
    return [int(name) for name in names]


def missing_columns(schema: Schema, own: Iterable[str]) -> tuple[str, ...]:
    """Columns of the objects that the schema lacks, in order."""
    have = types(schema)
    return tuple(dict.fromkeys(c for c in own if c not in have))


def append_columns(schema: Schema, names: Iterable[str], typed: Schema) -> Schema:
    """`schema` with the named columns of `typed` at its end, with its types."""
    new = types(typed)
    return {
        "type": "struct",
        "fields": [*schema["fields"], *struct((n, new[n]) for n in names if n in new)["fields"]],
    }


def own_columns(columns: list[str] | None, schema: Schema, *, positional: bool) -> list[str]:
    """The columns of one source object under a schema: all where they are unknown, by position for
    headerless CSV. Without the fields within them."""
    names = [f["name"] for f in schema["fields"]]
    if columns is None:
        return names
    return names_by_place(columns, names) if positional else [c for c in columns if NESTED not in c]


def names_by_place(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Columns of headerless CSV under the dataset's names: those of the file by their places, as
    many as there are names, then those that its folders give."""
    count = next((i for i, column in enumerate(columns) if column != f"_c{i}"), len(columns))
    own, folders = columns[:count], columns[count:]
    names = [name for name in names if name not in folders]
    return [*names[:count], *own[len(names) :], *folders]


def metadata_fields(metadata: Iterable[str]) -> Mapping[str, str]:
    kinds = {"name": ("_source_name", "string"), "modified": ("_source_modified", "timestamp")}
    return dict(kinds[m] for m in sorted(metadata, reverse=True))

"""Files without a readable footer: our words say what is wrong, and Arrow's are in the detail."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest

from dataplane.connectors.files.footers import footer_types
from dataplane.listing.avro_schema import MAGIC, avro_types
from dataplane.task_failures import TaskFailure, error_of
from tests.avro_files import avro_file


def written(library: Any) -> bytes:
    file = io.BytesIO()
    library.write_table(pa.table({"a": [1]}), file)
    return file.getvalue()


FILES = {
    "parquet": written(pyarrow.parquet),
    "orc": written(pyarrow.orc),
    "avro": avro_file(pa.table({"a": [1]})),
}


def header_of(schema: str, *more: bytes) -> bytes:
    """An Avro file that has a header alone. `more`: other texts in it."""

    def text(content: bytes) -> bytes:
        number, size = len(content) << 1, b""
        while number >= 0x80:
            size, number = size + bytes([number & 0x7F | 0x80]), number >> 7
        return size + bytes([number]) + content

    entries = [(b"avro.schema", schema.encode()), *((b"a", content) for content in more)]
    blocks = (b"\x02" + text(name) + text(content) for name, content in entries)
    return MAGIC + b"".join(blocks) + b"\x00" + bytes(16)


CSV = b"a,b\n1,2\n"
BROKEN = [
    ("parquet", b"", "it is empty"),
    ("orc", b"", "it is empty"),
    ("parquet", b"PA", "it does not begin as one"),
    ("parquet", CSV, "it does not begin as one"),
    ("orc", FILES["parquet"], "it does not begin as one"),
    ("parquet", FILES["parquet"][:-20], "it is cut short"),
    ("orc", FILES["orc"][:-20], "it is cut short"),
    ("parquet", FILES["parquet"][:-8] + b"\xff\xff\xff\x7fPAR1", "its footer is damaged"),
    ("orc", FILES["orc"][:-15] + b"\xff" * 10 + FILES["orc"][-5:], "its footer is damaged"),
    ("parquet", FILES["parquet"][:-4] + b"PARE", "it is encrypted"),
    ("avro", b"", "it is empty"),
    ("avro", CSV, "it does not begin as one"),
    ("avro", FILES["avro"][:20], "its header is damaged, or cut short"),
    ("avro", FILES["avro"].replace(b'"long"', b'"lung"'), "its header is damaged"),
    ("avro", MAGIC + b"\xff" * 20, "its header is damaged"),
    ("avro", MAGIC + b"\x02\x02a\xfe\xff\xff\xff\xff\x7f", "its header is damaged"),
    ("avro", header_of("[" * 100_000), "its header is damaged"),
    ("avro", header_of('"int"'), "its header is damaged"),
]


@pytest.mark.parametrize(("kind", "content", "fault"), BROKEN)
def test_a_broken_file_is_named_with_its_fault(kind: str, content: bytes, fault: str) -> None:
    with pytest.raises(TaskFailure) as failure:
        footer_types(io.BytesIO(content), "/data/a", kind)
    error = error_of(failure.value)
    words = {"parquet": "Parquet", "orc": "ORC", "avro": "Avro"}[kind]
    assert (error["condition"], error["file"]) == ("MALFORMED_FILE", "/data/a")
    assert error["message"].startswith(f"/data/a: not a readable {words} file: {fault}")
    assert str(failure.value.__cause__) not in error["message"]
    assert str(failure.value.__cause__) in error["detail"]


def types_of(*fields: str) -> dict[str, Any]:
    parts = ", ".join(f'{{"name": "c{i}", "type": {kind}}}' for i, kind in enumerate(fields))
    schema = f'{{"type": "record", "name": "a.r", "fields": [{parts}]}}'
    return avro_types(io.BytesIO(header_of(schema)))


ENUM = '{"type": "enum", "name": "e", "symbols": ["x"]}'
LIST = '{"type": "record", "name": "l", "fields": [{"name": "next", "type": ["null", "l"]}]}'
AVRO = [
    (ENUM, "string"),
    ('["null", "a.e"]', "string"),
    ('{"type": "int", "logicalType": "time-millis"}', "time"),
    ('{"type": {"type": "long", "logicalType": "local-timestamp-nanos"}}', "timestamp_ntz(9)"),
    ('{"type": "string", "logicalType": "uuid"}', "string"),
    ('["int", "string"]', "union"),
    ("[]", "void"),
    (LIST, {"type": "struct", "fields": [{"name": "next", "type": "recursive"}]}),
]


def test_types_of_avro_are_those_of_its_schema() -> None:
    types = list(types_of(*(kind for kind, _ in AVRO)).values())
    assert types[:-1] == [expected for _, expected in AVRO[:-1]]
    assert types[-1]["fields"][0]["type"] == "recursive"


def test_all_texts_of_a_header_have_one_bound() -> None:
    record = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}'
    half = bytes(9 << 20)
    assert avro_types(io.BytesIO(header_of(record, half))) == {"a": "integer"}
    with pytest.raises(ValueError, match="a text of 9437184 bytes"):
        avro_types(io.BytesIO(header_of(record, half, half)))


def test_types_that_multiply_are_bounded() -> None:
    """Thirty records, each twice in the next one, would be a thousand million fields."""
    inner = "int"
    kinds = []
    for i in range(30):
        fields = ", ".join(f'{{"name": "{name}", "type": "{inner}"}}' for name in "xy")
        kinds.append(f'{{"type": "record", "name": "n{i}", "fields": [{fields}]}}')
        inner = f"a.n{i}"
    with pytest.raises(TaskFailure) as failure:
        types_of(*kinds)
    assert error_of(failure.value)["condition"] == "too-many-columns"

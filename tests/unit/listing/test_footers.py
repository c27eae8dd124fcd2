"""Files without a readable footer: our words say what is wrong, and Arrow's are in the detail."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest

from dataplane.connectors.files.footers import footer_types
from dataplane.task_failures import TaskFailure, error_of


def written(library: Any) -> bytes:
    file = io.BytesIO()
    library.write_table(pa.table({"a": [1]}), file)
    return file.getvalue()


FILES = {"parquet": written(pyarrow.parquet), "orc": written(pyarrow.orc)}
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
]


@pytest.mark.parametrize(("kind", "content", "fault"), BROKEN)
def test_a_broken_file_is_named_with_its_fault(kind: str, content: bytes, fault: str) -> None:
    with pytest.raises(TaskFailure) as failure:
        footer_types(io.BytesIO(content), "/data/a", kind)
    error = error_of(failure.value)
    words = {"parquet": "Parquet", "orc": "ORC"}[kind]
    assert (error["condition"], error["file"]) == ("MALFORMED_FILE", "/data/a")
    assert error["message"].startswith(f"/data/a: not a readable {words} file: {fault}")
    assert str(failure.value.__cause__) not in error["message"]
    assert str(failure.value.__cause__) in error["detail"]

"""Fragments are read again and compared with what was measured when they were written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controlplane.core.model.tasks import Fragment
from controlplane.lake.contents import damages
from dataplane.contract.identity import Content
from dataplane.fragments.content_local import content
from tests.unit.lake.tables import Lake, struct

SCHEMA = struct(a="long", b="string")
ROWS = [{"a": n, "b": f"t{n}" * (n % 5)} for n in range(100)]


def fragment(lake: Lake) -> Fragment:
    made = lake.fragment(SCHEMA, ROWS[:40], ROWS[40:])
    found = Content(0, 0, 0)
    for file in made.files:
        pq.write_table(
            pq.read_table(lake.root / file["path"]),
            lake.root / file["path"],
            write_page_checksum=True,
        )
        file["size"] = (lake.root / file["path"]).stat().st_size
        one = content(SCHEMA, pq.read_table(lake.root / file["path"]))
        assert one
        found = found.plus(one)
    return replace(made, content=found)


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)


def _other_rows(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(
        table.set_column(0, "a", pa.array([7] * len(table), pa.int64())),
        path,
        write_page_checksum=True,
    )


def _fewer_rows(path: Path) -> None:
    pq.write_table(pq.read_table(path).slice(1), path)


def test_what_is_whole_is_not_told(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    one, gone = fragment(lake), fragment(lake)
    (tmp_path / gone.files[0]["path"]).unlink()  # which is for others to tell
    assert list(damages(tmp_path.as_uri(), [one, gone, one])) == []


@pytest.mark.parametrize(
    ("damage", "what"),
    [(_flip, "the file is damaged"), (_other_rows, "its rows are"), (_fewer_rows, "its rows are")],
)
def test_what_is_damaged_is_told(tmp_path: Path, damage: Callable[[Path], None], what: str) -> None:
    lake = Lake(tmp_path)
    whole, one = fragment(lake), fragment(lake)
    damage(tmp_path / one.files[1]["path"])
    ((found, path, words),) = damages(tmp_path.as_uri(), [whole, one, whole])
    assert (found, path) == (one, one.files[1]["path"])
    assert what in words


def test_negative_zero_is_another_value() -> None:
    contents = [content(struct(d="double"), pa.table({"d": [zero]})) for zero in (0.0, -0.0)]
    assert contents[0] != contents[1]

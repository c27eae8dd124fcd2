"""Values of core as rows: the fields of a dataclass in the columns of a table."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import pytest
from sqlalchemy import (
    Column,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    create_engine,
    insert,
    literal,
    select,
)

from controlplane.core.rights import EVERYWHERE, TokenScope
from controlplane.store.sql.row_records import Record
from tests.store.examples import role, token
from tests.stores import store_at


@dataclass(frozen=True, slots=True)
class Parcel:
    name: str
    kind: Literal["box", "bag"]
    digest: bytes
    labels: tuple[tuple[str, ...] | None, ...]
    marks: frozenset[str]
    stamps: Mapping[str, tuple[str, ...]]
    within: TokenScope
    note: Mapping[str, object] | None = None
    sent: float | None = None
    weight: int = 7


PARCELS = Table(
    "parcels",
    MetaData(),
    Column("title", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    *(Column(name, Text, nullable=False) for name in ("labels", "marks", "stamps", "narrowed")),
    Column("note", Text),
    Column("sent", Double),
)
RECORD = Record(PARCELS, Parcel, name="title", within="narrowed", weight=None)
FULL = Parcel(
    'p\N{LATIN SMALL LETTER U WITH DIAERESIS}"',
    "bag",
    b"\0\xff",
    labels=(("a", "b"), None, ()),
    marks=frozenset("zya"),
    stamps=MappingProxyType({"y": ("1",), "x": ()}),
    within=TokenScope(datasets=("shop.*",)),
    note={"\0": [None]},
    sent=1.5,
)
EMPTY = Parcel("", "box", b"", (), frozenset(), {}, EVERYWHERE)


@pytest.mark.parametrize("parcel", [FULL, EMPTY], ids=["full", "empty"])
def test_a_value_comes_back_from_its_row(parcel: Parcel) -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        PARCELS.create(connection)
        connection.execute(insert(PARCELS), RECORD.to_row(parcel))
        row = connection.execute(select(PARCELS)).one()
    engine.dispose()
    assert RECORD.from_row(row) == parcel
    assert RECORD.from_row(row, labels=(), weight=8).weight == 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    text: str
    size: int


@dataclass(frozen=True, slots=True)
class Tag:
    text: str
    size: int


@pytest.mark.parametrize("kind", [Label, Tag])
def test_columns_may_come_in_any_order(kind: type[Label | Tag]) -> None:
    table = Table(
        "tags", MetaData(), Column("text", Text, primary_key=True), Column("size", Integer)
    )
    record = Record[Label | Tag](table, kind)
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(insert(table), record.to_row(kind(text="a", size=3)))
        for columns in ((table.c.text, table.c.size), (table.c.size, literal(9), table.c.text)):
            row = connection.execute(select(*columns)).one()
            assert record.from_row(row) == kind(text="a", size=3)
    engine.dispose()


def test_columns_have_texts_as_they_are_and_all_else_as_ascii_json_with_sorted_keys() -> None:
    assert RECORD.to_row(FULL) == {
        "title": FULL.name,
        "kind": "bag",
        "digest": b"\0\xff",
        "labels": '[["a","b"],null,[]]',
        "marks": '["a","y","z"]',
        "stamps": '{"x":[],"y":["1"]}',
        "narrowed": '{"branches":[],"dataflows":[],"datasets":["shop.*"]}',
        "note": '{"\\u0000":[null]}',
        "sent": 1.5,
    }
    assert RECORD.to_row(EMPTY)["note"] is None


def test_a_field_without_a_column_has_to_be_named() -> None:
    with pytest.raises(KeyError, match="weight"):
        Record(PARCELS, Parcel, name="title", within="narrowed")


def test_tokens_leave_out_kinds_without_patterns_and_roles_have_all(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    store = store_at(f"sqlite:///{path}")
    within = TokenScope(datasets=("shop.*",))
    with store.begin() as tx:
        tx.access.put_token(token("t", within=within))
        tx.access.put_role(role("r", within=within))
        assert tx.access.token_by_id("t") == token("t", within=within)
    store.close()
    connection = sqlite3.connect(path)
    ((of_token,),) = connection.execute("SELECT narrowed FROM tokens")
    ((of_role,),) = connection.execute("SELECT narrowed FROM roles")
    connection.close()
    assert of_token == '{"datasets":["shop.*"]}'
    assert of_role == '{"branches":[],"dataflows":[],"datasets":["shop.*"]}'

"""`distinct:` is a transform that is written out: how it reads its input, and what is refused."""

from __future__ import annotations

import re

import pytest

from controlplane.core.blueprint import written_out
from controlplane.core.blueprint.cdc import OWN_COLUMN
from tests.unit.blueprint.test_cdc import EVENTS, FILE, node, problems

UNIQUE = """\
  unique:
    distinct:
      from: events
      keys: [id, shop]
      order_by: [at, place]
"""
MORE = ["", "      within: 1h\n", "      on_tie: least\n      within: 90s\n"]


@pytest.mark.parametrize("more", MORE)
def test_rows_are_read_by_bucket_of_the_first_key(more: str) -> None:
    unique = node(EVENTS + UNIQUE + more, "unique")
    [slot] = unique.slots
    assert (slot.mode, slot.is_proven, slot.cure) == ("by", True, "")
    assert not unique.is_volatile
    assert [(part.column, part.buckets) for part in unique.key] == [("id", 64)]


@pytest.mark.parametrize("more", MORE)
def test_the_text_that_is_shown_is_the_same_blueprint(more: str) -> None:
    long = written_out(EVENTS + UNIQUE + more, file=FILE)
    assert "distinct:" not in long
    assert node(EVENTS + UNIQUE + more, "unique").logic == node(long, "unique").logic


def test_no_key_is_called_like_a_column_of_the_query() -> None:
    unique = node(EVENTS + UNIQUE + MORE[1], "unique")
    assert unique.query is not None
    columns = set(re.findall(r"AS (_\w+)", unique.query.text))
    steps = set(re.findall(r"(_\w+) AS \(", unique.query.text))
    assert "_before" in columns
    assert not [name for name in columns - steps if not OWN_COLUMN.fullmatch(name)]


def test_another_time_is_another_logic() -> None:
    logics = {node(EVENTS + UNIQUE + more, "unique").logic for more in MORE}
    assert len(logics) == len(MORE)


WRONG = [
    ("within: soon", "invalid-duration", "soon"),
    ("columns: {except: [ID]}", "invalid-value", "'ID'"),
    ("columns: [v, V]", "invalid-value", "twice"),
    ("on_tie: greatest", "invalid-value", "fail or least"),
    ("sequence_by: [at]", "unknown-key", "sequence_by"),
]


@pytest.mark.parametrize(("more", "code", "words"), WRONG)
def test_what_means_nothing_is_refused_at_its_place(more: str, code: str, words: str) -> None:
    [problem] = problems(f"{UNIQUE}      {more}\n")
    assert (problem.code, problem.line) == (code, 10)
    assert words in problem.message


@pytest.mark.parametrize(
    "body",
    ["cdc: {from: events, keys: [id], sequence_by: [at]}", "transform: {sql: SELECT 1 AS a}"],
)
def test_a_component_has_one_body(body: str) -> None:
    [problem] = problems(f"{UNIQUE}    {body}\n")
    assert problem.code == "conflicting-keys"


def test_keys_and_order_are_needed() -> None:
    reported = problems("  unique:\n    distinct: {from: events, order_by: []}\n")
    assert {(p.code, p.message) for p in reported} == {
        ("missing-key", "the key 'keys' is missing"),
        ("invalid-value", "0 columns in 'order_by'"),
    }

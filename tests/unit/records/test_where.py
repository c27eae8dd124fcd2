"""Conditions on rows: what they mean, and what is refused at which place. Nothing else of SQL is
taken."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from controlplane.core.errors import BadCondition
from controlplane.core.records.literals import unquoted
from controlplane.core.records.where import parse
from controlplane.core.sql.lexer import tokenize
from dataplane.contract.predicates import as_json, columns_of, of_json
from dataplane.contract.schemas import Schema
from dataplane.fragments.arrow import arrow_schema
from dataplane.fragments.filtering import satisfying
from tests.unit.lake.tables import struct

pytestmark = pytest.mark.unit
SCHEMA: Schema = struct(
    n="long",
    i="integer",
    b="byte",
    f="float",
    d="double",
    p="decimal(12,2)",
    big="decimal(38,10)",
    s="string",
    ok="boolean",
    day="date",
    at="timestamp",
    loc="timestamp_ntz",
    raw="binary",
    st={"type": "struct", "fields": struct(x="integer", y="string")["fields"]},
    arr={"type": "array", "elementType": "long", "containsNull": True},
    nothing="void",
)
ROWS = [
    {
        "n": k,
        "i": k,
        "b": k,
        "f": k + 0.5,
        "d": float("nan") if k == 5 else k + 0.5,
        "p": Decimal(k) + Decimal("0.10"),
        "big": Decimal(k),
        "s": ["it's", "AA", "a%b", None][k % 4],
        "ok": [True, False, None][k % 3],
        "day": date(2013, 1, 1 + k),
        "at": datetime(2013, 1, 1 + k, tzinfo=UTC),
        "loc": datetime(2013, 1, 1 + k, tzinfo=UTC).replace(tzinfo=None),
        "raw": b"x",
        "st": {"x": k, "y": "z"} if k else None,
        "arr": [k],
    }
    for k in range(6)
]
BATCH = pa.RecordBatch.from_pylist(ROWS, schema=arrow_schema(SCHEMA))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n > 2", [3, 4, 5]),
        ("N >= 1 and n < 3", [1, 2]),
        ("n = 1 OR n = 2 AND n = 3", [1]),
        ("(n = 1 OR n = 2) AND n = 2", [2]),
        ("NOT n = 2 AND NOT (n = 3)", [0, 1, 4, 5]),
        ("not not n = 2", [2]),
        ("n <> 1 and n != 2 and 3 < n", [4, 5]),
        ("n == 3 -- a comment", [3]),
        ("/* a */ n = 3", [3]),
        ("s = 'it''s'", [0, 4]),
        ("s = 'it\\'s'", [0, 4]),
        ('s = "it\'s"', [0, 4]),
        ("s = r'AA'", [1, 5]),
        ("s = '\\u0041A'", [1, 5]),
        ("s IS NULL", [3]),
        ("NOT s = 'AA'", [0, 2, 4]),
        ("s <=> 'AA' or not (s <=> s)", [1, 5]),
        ("s not like 'A%'", [0, 2, 4]),
        ("s like 'a\\%_'", [2]),
        ("s ilike 'aa'", [1, 5]),
        ("n in (1, 3, 9)", [1, 3]),
        ("s not in ('AA')", [0, 2, 4]),
        ("p in (1.10, 2.1)", [1, 2]),
        ("p > 1.123", [2, 3, 4, 5]),
        ("big = 3", [3]),
        ("b in (300, 1)", [1]),
        ("b < 300 and b > -1.5", [0, 1, 2, 3, 4, 5]),
        ("n > 1.5 and i > 2e0", [3, 4, 5]),
        ("n = 9223372036854775807 or n < 99999999999999999999", [0, 1, 2, 3, 4, 5]),
        ("n = 000000000000000000000000000000000000000000000003", [3]),
        ("f > 2.4 and d < 4", [2, 3]),
        ("d between 1 and 3", [1, 2]),
        ("d = d", [0, 1, 2, 3, 4]),
        ("ok", [0, 3]),
        ("not ok", [1, 4]),
        ("ok = true or ok is not true", [0, 1, 2, 3, 4, 5]),
        ("day >= '2013-01-03' and day < date '2013-01-05'", [2, 3]),
        ("at > timestamp '2013-01-03T00:00+01:00'", [2, 3, 4, 5]),
        ("at > '2013-01-03T00:00Z'", [3, 4, 5]),
        ("loc < '2013-01-03' or loc = timestamp '2013-01-04 00:00'", [0, 1, 3]),
        ("year(at) = 2013 and month(day) = 1 and day(loc) > 5", [5]),
        ("trim(lower(s)) = 'aa' or length(s) = 3", [1, 2, 5]),
        ("abs(n) <= i and n < p", [0, 1, 2, 3, 4, 5]),
        ("st.x > 3 or ST.`Y` is null", [0, 4, 5]),
        ("st is null and arr is not null and nothing is null", [0]),
        ("`n` = 2", [2]),
    ],
)
def test_rows_of_which_it_is_true(text: str, expected: list[int]) -> None:
    condition = parse(text, SCHEMA)
    assert satisfying(BATCH, of_json(as_json(condition)))["n"].to_pylist() == expected
    assert set(columns_of(condition)) <= set(BATCH.schema.names)


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("'a'", "a"),
        ("''", ""),
        ("'it''s'", "it's"),
        ("'''a'", "'a"),
        ('"a""b"', 'a"b'),
        ("'a'\"b\"'c'", "abc"),
        (r"'a\n\t\\\'\0\x'", "a\n\t\\'\0x"),
        (r"'\u00e9'", "é"),
        (r"'\%\_'", r"\%\_"),
        (r"r'\n'", r"\n"),
        (r"r'a\''b'", "a\\'b"),
        ('R"a\'"', "a'"),
    ],
)
def test_texts_between_quotes(token: str, text: str) -> None:
    assert [one.kind for one in tokenize(token)] == ["string"]
    assert unquoted(token) == text


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("", (1, 1), "empty"),
        ("n", (1, 1), "BIGINT alone is no condition"),
        ("n =", (1, 4), "ends where a value"),
        ("= 1", (1, 1), "not expected"),
        ("n = 'x'", (1, 5), "compared with BIGINT"),
        ("s = 1", (1, 5), "compared with STRING"),
        ("n = 1; drop table x", (1, 6), "not expected"),
        ("n = 1 --\n; drop table x", (2, 1), "not expected"),
        ("n in (select 1)", (1, 7), "reads no other"),
        ("(select 1)", (1, 2), "reads no other"),
        ("n = (select max(n) from t)", (1, 6), "reads no other"),
        ("exists (select 1)", (1, 1), "no function"),
        ("select * from t", (1, 1), "reads no other"),
        ("1 = 1", (1, 1), "both sides are values"),
        ("true", (1, 1), "a value alone"),
        ("n = 1 or true", (1, 10), "alone"),
        ("n = null", (1, 5), "write IS NULL"),
        ("n = 1 + 1", (1, 7), "not expected"),
        ("sleep(1) = 1", (1, 1), "no function"),
        ("read_text('/etc/passwd') = 'x'", (1, 1), "no function"),
        ("java_method('java.lang.System', 'exit') = 'x'", (1, 1), "no function"),
        ("s rlike '(a+)+$'", (1, 1), "alone"),
        ("n between 1", (1, 12), "AND is expected"),
        ("n in ()", (1, 7), "not expected"),
        ("n in (n)", (1, 7), "IN takes values"),
        ("n in (1", (1, 8), r"\) is expected"),
        ("(n = 1", (1, 7), r"\) is expected"),
        ("n = 1)", (1, 6), "not expected"),
        ("raw = 'x'", (1, 1), "not compared"),
        ("arr = 1", (1, 1), "not compared"),
        ("st.q = 1", (1, 1), "no column q in st"),
        ("n.q = 1", (1, 1), "no column q in n"),
        ("nope = 1", (1, 1), "no column nope"),
        ("`` = 1", (1, 1), "no column"),
        ("day = '2013-02-30'", (1, 7), "not a date"),
        ("at = '2013-01-03T00:00'", (1, 6), "with its zone"),
        ("loc = '2013-01-03T00:00Z'", (1, 7), "without a zone"),
        ("at < date '2013-01-01'", (1, 11), "compared with TIMESTAMP"),
        ("day < at", (1, 7), "not compared with"),
        ("at = '0001-01-01T00:00+10:00'", (1, 6), "not a time"),
        ("n = 99999999999999999999999999999999999999999", (1, 5), "38 digits"),
        ("n = 1.12345678901234567890123", (1, 5), "no decimal of 38"),
        ("big = 1.123456789012", (1, 7), "no decimal of 38"),
        ("n in (1.5)", (1, 7), "never equals"),
        ("ok < true", (1, 1), "no order"),
        ("s like n", (1, 8), "pattern"),
        ("n like 'x'", (1, 1), "LIKE is for"),
        ("s like 'a\\\\b'", (1, 8), "backslash"),
        ("lower(n) = 'x'", (1, 7), "does not take BIGINT"),
        ("lower('x') = s", (1, 7), "does not take a value"),
        ("lower(s, s) = 'x'", (1, 8), r"\) is expected"),
        ("s = 'unclosed", (1, 5), "never closed"),
        ("n = 1 /* x", (1, 7), "never closed"),
        ("n = 1 = 1", (1, 7), "chain"),
        ("n not = 1", (1, 7), "after NOT"),
        ("case when n = 1 then true end", (1, 1), "not expected"),
        ("cast(n as string) = '1'", (1, 1), "no function"),
        ("n::string = '1'", (1, 1), "alone"),
        (":p = n", (1, 1), "not expected"),
        ("? = n", (1, 1), "not expected"),
        ("n = 1e999", (1, 5), "no number"),
        ("n IS 5", (1, 6), "after IS"),
        ("1 is null", (1, 1), "never NULL"),
        ("@@version = 1", (1, 1), "not expected"),
        ("n[0] = 1", (1, 1), "alone"),
        ("n = 0x10", (1, 5), "no column"),
        ("not", (1, 4), "ends where"),
        ("(" * 60 + "n = 1" + ")" * 60, (1, 52), "within each other"),
        ("not " * 60 + "n = 1", (1, 205), "within each other"),
        ("lower(" * 60 + "s" + ")" * 60 + " = 'x'", (1, 307), "within each other"),
        (" or ".join(["n=1"] * 600), (1, 3501), "more than 2,000 words"),
        ("s = '" + "x" * 9_000 + "'", (1, 1), "longer than"),
    ],
)
def test_what_is_refused_at_which_place(text: str, place: tuple[int, int], said: str) -> None:
    with pytest.raises(BadCondition, match=said) as refused:
        parse(text, SCHEMA)
    (problem,) = refused.value.problems
    assert (problem.line, problem.column) == place, problem


def test_parts_beside_each_other_are_not_within_each_other() -> None:
    parse(" AND ".join(["(NOT n = 1)"] * 60), SCHEMA)


def test_a_column_that_two_columns_may_be_is_neither() -> None:
    twice = struct(Ab="long", aB="long")
    with pytest.raises(BadCondition, match="no column ab"):
        parse("ab = 1", twice)
    assert parse("aB = 1", twice) == parse("`aB` = 1", twice)

"""Values under the types of a dataset: as they are, or an error."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dataplane.connectors.files import casting
from dataplane.task_failures import TaskFailure

pytestmark = pytest.mark.usefixtures("compiled")  # as production runs

CASES = [  # type found, type wanted, a value that it holds, one that it does not
    ("INT", "BIGINT", "7", None),
    ("BIGINT", "INT", "7", "3000000000"),
    ("DOUBLE", "INT", "7.0", "7.5"),
    ("DOUBLE", "FLOAT", "0.5", "0.1"),
    ("DECIMAL(10,2)", "INT", "7.00", "7.50"),
    ("DECIMAL(10,4)", "DECIMAL(10,2)", "1.2500", "1.2345"),
    ("DECIMAL(4,2)", "DECIMAL(10,2)", "1.25", None),
    ("TIMESTAMP", "DATE", "timestamp'2026-01-01 00:00:00'", "timestamp'2026-01-01 00:00:01'"),
    ("STRING", "INT", "'7'", "'7.5'"),
    ("STRING", "DECIMAL(10,2)", "'1.25'", "'1.2345'"),
    ("STRING", "DECIMAL(38,18)", "'1.123456789012345678'", "'1.1234567890123456789'"),
    ("STRING", "DATE", "'2026-01-01'", "'2026-01-01 12:34:56'"),
    ("STRING", "TIMESTAMP", "'2026-01-01 00:00:00.123456'", "'2026-01-01 00:00:00.1234567'"),
    ("STRING", "TIMESTAMP", "'2026-01-01 12:00:00'", "' T12:00'"),
    ("STRING", "TIMESTAMP_NTZ", "'2026-01-01 00:00:00.123456'", "'2026-01-01 00:00:00.1234567'"),
    ("STRING", "DOUBLE", "'0.1'", "'1e400'"),
    ("STRING", "DOUBLE", "'Infinity'", "'-1e400'"),
    ("STRING", "BOOLEAN", "'true'", "'5'"),
    ("STRING", "BINARY", "'é'", None),
    ("BINARY", "STRING", "'é'", "unhex('ff')"),
    ("DOUBLE", "DECIMAL(10,2)", "1.25D", "1.2345D"),
    ("DOUBLE", "DECIMAL(10,2)", "0.10D", "'NaN'"),
    ("FLOAT", "DECIMAL(10,2)", "1.25", "1.239"),
    ("DECIMAL(10,2)", "DOUBLE", "0.10", None),
    ("DECIMAL(20,0)", "FLOAT", "16777216", "16777217"),
    ("DECIMAL(38,18)", "DOUBLE", "0.5", "'12345678901234567890.123456789012345678'"),
    ("DECIMAL(10,2)", "BOOLEAN", "1.00", "0.50"),
    ("INT", "DOUBLE", "2147483647", None),
    ("INT", "FLOAT", "16777216", "16777217"),
    ("INT", "FLOAT", "-2147483648", "2147483647"),
    ("BIGINT", "DOUBLE", "9007199254740992", "9007199254740993"),
    ("BIGINT", "DOUBLE", "-9223372036854775808", "9223372036854775807"),
    ("DOUBLE", "BIGINT", "-9223372036854775808D", "9223372036854775808D"),
    ("DOUBLE", "BIGINT", "-0.0D", "'NaN'"),
    ("DOUBLE", "FLOAT", "'NaN'", "1e300D"),
    ("DOUBLE", "FLOAT", "'-Infinity'", "1e-300D"),
    ("BIGINT", "BOOLEAN", "1", "5"),
    ("BIGINT", "TIMESTAMP", "5", "9223372036854775807"),
    ("BOOLEAN", "INT", "true", None),
    ("TIMESTAMP", "BIGINT", "timestamp'2026-01-01 00:00:00'", "timestamp'2026-01-01 00:00:00.5'"),
    ("TIMESTAMP", "TIMESTAMP_NTZ", "timestamp'2026-01-01 00:00:00.5'", None),
    ("DOUBLE", "TIMESTAMP", "1.5D", "1.23456789D"),
]


def types(*kinds: str) -> tuple[Any, ...]:
    return tuple(cast("StructType", StructType.fromDDL(f"c {kind}"))[0].dataType for kind in kinds)


@pytest.mark.parametrize(("found", "wanted", "fits", "lost"), CASES)
def test_nothing_is_cut_off(
    spark: SparkSession, found: str, wanted: str, fits: str, lost: str | None
) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "true")
    column = casting.cast("c", *types(found, wanted))

    def read(value: str) -> Any:
        rows = spark.sql(f"SELECT CAST(x AS {found}) AS c FROM VALUES ({value}), (NULL) AS t(x)")
        return rows.select(column, "c").collect()

    (row, none) = read(fits)
    assert none[0] is None
    again = spark.createDataFrame([(row[0],)], f"c {wanted}").select(
        F.col("c").cast(types(found)[0])
    )
    assert str(again.collect()[0][0]) == str(row[1]).replace("-0.0", "0.0")
    if lost:
        with pytest.raises(PySparkException):
            read(lost)


TEXTS = [  # texts of numbers and times, and what they are under a type; None: more than it holds
    ("DECIMAL(10,2)", " +1.2500 ", "1.25"),
    ("DECIMAL(10,2)", "1.25e1", "12.50"),
    ("DECIMAL(10,2)", "1.2345E2", "123.45"),
    ("DECIMAL(10,2)", "1.2345E1", None),
    ("DECIMAL(10,2)", "100E-3", "0.10"),
    ("DECIMAL(10,2)", "0E-18", "0.00"),
    ("DECIMAL(10,2)", "-.001", None),
    ("DECIMAL(38,18)", "1e-19", None),
    ("DECIMAL(10,0)", "120e-1", "12"),
    ("DATE", "2026-01-01 00:00:00", "2026-01-01"),
    ("DATE", " 2026-1-1 ", "2026-01-01"),
    ("DATE", "2026-01-01T00:00:00.0000001", None),
    ("DATE", "2026-01-01 and more", None),
    ("TIMESTAMP", "2026-01-01T00:00:00.500000000Z", "2026-01-01 00:00:00.5"),
]


@pytest.mark.parametrize(("wanted", "text", "expected"), TEXTS)
def test_no_digit_of_a_text_is_lost(
    spark: SparkSession, wanted: str, text: str, expected: str | None
) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "true")
    rows = spark.createDataFrame([(text,)], "c STRING").select(
        casting.cast("c", *types("STRING", wanted))
    )
    if expected is None:
        with pytest.raises(PySparkException, match="which does not hold"):
            rows.collect()
    else:
        assert rows.select(F.col("c").cast("string")).collect()[0][0] == expected


SAME = [
    ("DECIMAL(12,2)", "DECIMAL(12,2)"),
    ("BIGINT", "DECIMAL(20,2)"),
    ("DATE", "TIMESTAMP_NTZ"),
    ("FLOAT", "DOUBLE"),
    ("DOUBLE", "STRING"),
]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(("found", "wanted"), SAME)
def test_what_always_fits_is_not_looked_at(found: str, wanted: str) -> None:
    def looks(found: str, wanted: str) -> bool:
        return "raise_error" in str(casting.cast("c", *types(found, wanted)))

    assert looks(wanted, found) or found == wanted
    assert not looks(found, wanted)


def test_nested_values_are_not_tried_one_by_one(spark: SparkSession) -> None:
    kinds = [
        (f"STRUCT<a: {a}>", f"STRUCT<a: {b}>") for a, b in (("DOUBLE", "INT"), ("STRING", "DATE"))
    ]
    kinds += [
        ("ARRAY<DOUBLE>", "ARRAY<INT>"),
        ("MAP<DOUBLE, INT>", "MAP<INT, INT>"),
        ("VARIANT", "INT"),
    ]
    for found, wanted in kinds:
        with pytest.raises(TaskFailure, match="which may not hold"):
            casting.cast("c", *types(found, wanted))
    for found, wanted in kinds[:-1]:
        assert casting.cast("c", *types(wanted, found)) is not None

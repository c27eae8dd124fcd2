"""Values under the types of a dataset: as they are, or an error."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from dataplane.failure import TaskFailure
from dataplane.read import casting

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
]


def types(*kinds: str) -> tuple[Any, ...]:
    return tuple(cast("StructType", StructType.fromDDL(f"c {kind}"))[0].dataType for kind in kinds)


@pytest.mark.parametrize(("found", "wanted", "fits", "lost"), CASES)
def test_nothing_is_cut_off(spark: SparkSession, found: str, wanted: str, fits: str, lost: str | None) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "true")
    column = casting.cast("c", *types(found, wanted))

    def read(value: str) -> Any:
        rows = spark.sql(f"SELECT CAST(x AS {found}) AS c FROM VALUES ({value}), (NULL) AS t(x)")
        return rows.select(column, "c").collect()

    (row, none) = read(fits)
    assert none[0] is None
    assert str(row[0]) == str(row[1]) or row[0] == row[1] or (wanted, str(row[0])) == ("DATE", "2026-01-01")
    if lost:
        with pytest.raises(PySparkException):
            read(lost)


def test_nested_values_are_not_tried_one_by_one(spark: SparkSession) -> None:
    for found, wanted in (("STRUCT<a: DOUBLE>", "STRUCT<a: INT>"), ("ARRAY<DOUBLE>", "ARRAY<INT>")):
        with pytest.raises(TaskFailure, match="which may not hold"):
            casting.cast("c", *types(found, wanted))
        assert casting.cast("c", *types(wanted, found)) is not None

"""Values of messages as columns, and what becomes of those that are none."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from dataplane.read.kafka_values import shaped
from dataplane.read.options import CORRUPT

SETTINGS = {"format": "json", "schema": "id INT, item STRING"}
FINE, TEXT, BROKEN, NONE = b'{"id": 1, "item": "a"}', b'{"id": "one"}', b"{no JSON", None


def messages(spark: SparkSession, *values: bytes | None) -> DataFrame:
    rows = [(b"k", value, None, 0, offset, None) for offset, value in enumerate(values)]
    kinds = (
        "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, partition INT, offset BIGINT, "
    )
    return spark.createDataFrame(rows, kinds + "timestamp TIMESTAMP")


def test_what_is_no_json_is_marked_where_it_is_dropped(spark: SparkSession) -> None:
    found = shaped(messages(spark, FINE, TEXT, BROKEN, NONE), SETTINGS, None, drops=True)
    rows = sorted(found.collect(), key=lambda row: row["_offset"])
    assert [row[CORRUPT] is None for row in rows] == [True, False, False, True]
    assert [(row["id"], row["item"], row["_key"]) for row in rows if row[CORRUPT] is None] == [
        (1, "a", "k"),
        (None, None, "k"),
    ]


@pytest.mark.parametrize("value", [TEXT, BROKEN])
def test_what_is_no_json_is_an_error_else(spark: SparkSession, value: bytes) -> None:
    assert shaped(messages(spark, FINE, NONE), SETTINGS, None, drops=False).select("id", "item").collect()[0][0] == 1
    with pytest.raises(PySparkException, match="MALFORMED_RECORD_IN_PARSING"):
        shaped(messages(spark, value), SETTINGS, None, drops=False).collect()

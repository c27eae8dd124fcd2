"""Rows of an Iceberg table as Spark's Python workers read them, in this process."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from dataplane.connectors.iceberg.iceberg_listing import partitions
from dataplane.connectors.iceberg.iceberg_reader import _file_reader
from dataplane.connectors.iceberg.open_table import open_table
from dataplane.contract.jobs import ListJob
from dataplane.contract.results import LABEL
from dataplane.contract.schemas import canonical_schema, struct_of
from dataplane.spark.spark_schemas import spark_type


def rows_of_job(job: ListJob) -> list[dict[str, Any]]:
    """The rows of all listed files."""
    table = open_table(job, job["location"])
    schema = spark_type(canonical_schema(struct_of(table.fields))).add(LABEL, "string")
    call = _file_reader(table, to_arrow_schema(schema, timezone="UTC"))
    work = [
        {LABEL: source["name"], "file": json.dumps({**source["detail"], "size": source["size"]})}
        for partition in partitions(job)
        for source in partition["objects"]
    ]
    batches = call(iter([pa.RecordBatch.from_pylist(work)])) if work else ()
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [{name: value for name, value in row.items() if name != LABEL} for row in rows]

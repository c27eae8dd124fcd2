"""The result of a query or function, as it can be stored and as it was declared."""

from __future__ import annotations

from pyspark.sql import DataFrame

from dataplane.contract.jobs import Logic
from dataplane.contract.schemas import Schema
from dataplane.fragments.spark.writing import storable
from dataplane.spark.spark_schemas import schema_of, spark_type
from dataplane.task_failures import TaskFailure


def result_of(rows: DataFrame, job: Logic) -> DataFrame:
    """Raises TaskFailure for columns that cannot be stored, or that are not those that the job
    `returns`."""
    stored = storable(rows, case_sensitive=job["spark"]["case_sensitive"])
    declared = job.get("returns")
    schema = schema_of(stored)
    if declared is not None and schema != declared:
        message = f"the columns of the result are {_in_words(schema)}; `schema` says {_in_words(declared)}"
        raise TaskFailure("SCHEMA_DIFFERS", message)
    return stored


def _in_words(schema: Schema) -> str:
    fields = spark_type(schema).fields
    return ", ".join(f"{f.name} {f.dataType.simpleString().upper()}" for f in fields)

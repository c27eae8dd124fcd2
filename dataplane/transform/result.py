"""What a query or function gave, as it can be stored and as it was declared.

Does not belong here: running it, writing it.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from dataplane.contract.schemas import Json, Schema, canonical_schema
from dataplane.errors import TaskFailure
from dataplane.fragments.writing import storable


def result_of(rows: DataFrame, job: Mapping[str, Json]) -> DataFrame:
    """Raises TaskFailure for columns that cannot be stored, or that are not those that the job `returns`."""
    found = storable(rows, case_sensitive=job["spark"]["case_sensitive"])
    wanted: Schema | None = job.get("returns")
    schema = canonical_schema(found.schema.jsonValue())
    if wanted is not None and schema != wanted:
        message = f"the columns of the result are {_in_words(schema)}; `schema` says {_in_words(wanted)}"
        raise TaskFailure("SCHEMA_DIFFERS", message)
    return found


def _in_words(schema: Schema) -> str:
    fields = StructType.fromJson(schema).fields
    return ", ".join(f"{f.name} {f.dataType.simpleString().upper()}" for f in fields)

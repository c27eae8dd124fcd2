"""Source files as rows, wherever they lie: through links with labels, or in place in an object
store."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from dataplane.connectors.files.remote import Remote
from dataplane.contract.claims import SourceClaim
from dataplane.contract.schemas import Json, Schema
from dataplane.contract.source_objects import SourceObject
from dataplane.fragments.file_links import OBJECT, with_label
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.spark.spark_schemas import spark_type
from dataplane.storage.source_copies import local_file

PATH = "__headgate_path"
_NUMBER: Json = {"name": OBJECT, "type": "integer", "nullable": True, "metadata": {}}


def loaded(
    attempt: SparkAttempt[SourceClaim],
    session: SparkSession,
    source: DataFrameReader,
    objects: Sequence[SourceObject],
) -> DataFrame:
    """All that these have, to be looked at."""
    if remote := Remote.of(attempt, objects):
        return remote.reader(session, source).load(remote.paths(objects))
    links = attempt.links()
    for listed in objects:
        links.add(local_file(listed["uri"]))
    return source.load(str(links.folder))


def loaded_labelled(
    attempt: SparkAttempt[SourceClaim],
    session: SparkSession,
    source: DataFrameReader,
    objects: Sequence[tuple[str, SourceObject]],
    schema: Schema | None,
    *,
    numbered: bool,
    located: bool = False,
) -> DataFrame:
    """The columns of `schema` (None: those that the format fixes), the label that stands before
    each object; with `numbered` its place in the sequence, with `located` its URI as PATH, too."""
    if remote := Remote.of(attempt, [listed for _, listed in objects]):
        source = remote.reader(
            session, source if schema is None else source.schema(spark_type(schema))
        )
        rows = _located(source.load(remote.paths(listed for _, listed in objects)), located=located)
        return remote.labelled(session, rows, objects, numbered=numbered)
    links = attempt.links()
    for number, (label, listed) in enumerate(objects):
        links.add(local_file(listed["uri"]), label, number if numbered else None)
    if schema is not None:
        named = with_label(schema)
        fields = [*named["fields"], *([_NUMBER] if numbered else [])]
        source = source.schema(spark_type({**named, "fields": fields}))
    return _located(source.load(str(links.folder)), located=located)


def _located(rows: DataFrame, *, located: bool) -> DataFrame:
    return rows.withColumn(PATH, rows.metadataColumn("_metadata")["file_path"]) if located else rows

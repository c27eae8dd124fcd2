"""Slices of a table or query as rows in Spark, in the way of their database."""

from __future__ import annotations

from contextlib import AbstractContextManager

from pyspark.sql import SparkSession

from dataplane.connectors.jdbc import client_reader, postgresql_reader
from dataplane.connectors.jdbc.jdbc_connection import address
from dataplane.connectors.source_reader import SourceReader
from dataplane.contract.jobs import SourceJob


def reading(session: SparkSession, job: SourceJob) -> AbstractContextManager[SourceReader]:
    """Open for as long as rows are read."""
    place = address(job)
    if place.dialect.has_spark_reader:
        return postgresql_reader.reading(session, job, place)
    return client_reader.reading(session, job, place)

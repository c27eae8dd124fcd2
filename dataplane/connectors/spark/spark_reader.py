"""Rows of a data source, by a reader of Spark for each partition."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from dataplane.connectors.spark import mongodb_values
from dataplane.connectors.spark.option_places import check_option_places
from dataplane.connectors.spark.spark_listing import check_format
from dataplane.contract.jobs import SourceJob
from dataplane.contract.results import LABEL, TaskError
from dataplane.contract.schemas import Schema
from dataplane.contract.source_objects import SourceObject
from dataplane.secrets import resolved
from dataplane.spark.spark_schemas import schema_of
from dataplane.storage.refused_places import Places
from dataplane.task_failures import TaskFailure
from dataplane.transform.bundle import Bundle, opened

# The JVM's errors of connections
NO_ANSWER = re.compile(r"java\.net\.(Connect|NoRouteToHost|SocketTimeout|UnknownHost)Exception")
OURS = "headgate."  # begins options that are parts of the source's identity, and none of the reader


@contextmanager
def reading(session: SparkSession, job: SourceJob) -> Iterator[SparkReading]:
    """TaskFailure where the format is not allowed, or there is no class."""
    settings = job["settings"]
    check_format(settings, os.environ)
    modules = json.loads(settings.get("modules", "{}"))
    with opened(modules, settings.get("main", "")) as bundle:
        name = settings["format"] or _registered(session, bundle, settings["source"])
        yield SparkReading(session, job, bundle, name)


def _registered(session: SparkSession, bundle: Bundle, function: str) -> str:
    """The name under which this session knows the user's class."""
    source = getattr(bundle.load(), function)()
    if not (isinstance(source, type) and issubclass(source, DataSource)):
        message = f"{function} has to return a class of pyspark.sql.datasource.DataSource"
        raise TaskFailure("data-source", f"{message}, not {source!r}"[:300])
    session.dataSource.register(source)
    return source.name()


@dataclass(frozen=True, slots=True)
class SparkReading:
    session: SparkSession
    job: SourceJob
    bundle: Bundle
    name: str

    @property
    def files(self) -> Mapping[str, str]:
        return self.bundle.files

    def schema(self, _: Sequence[SourceObject]) -> Schema:
        """The declared schema."""
        return schema_of(self._declared)

    @property
    def _declared(self) -> StructType:
        return cast("StructType", StructType.fromDDL(self.job["settings"]["row_schema"]))

    def changed(self, _: Sequence[SourceObject]) -> frozenset[str]:
        """Empty: the component declares when a partition changes."""
        return frozenset()

    def may_pass(self, error: TaskError) -> bool:
        """Whether the source's server could not be reached."""
        return NO_ANSWER.search(f"{error['message']}\n{error['detail']}") is not None

    def rows(self, objects: Sequence[tuple[str, SourceObject]]) -> DataFrame:
        frames = [
            self._load(source["name"]).withColumn(LABEL, F.lit(label)) for label, source in objects
        ]
        return reduce(DataFrame.unionByName, frames)

    def _load(self, name: str) -> DataFrame:
        options = {
            key: resolved(text)
            for key, text in self.job["options"].items()
            if not key.startswith(OURS)
        }
        if option := self.job["settings"].get("option"):
            options[option] = name
        if self.job["settings"]["format"]:
            check_option_places(options, Places.of(os.environ))
        reader = self.session.read.format(self.name).options(**options)
        if self.name.lower() in mongodb_values.FORMATS:
            rows = reader.schema(mongodb_values.read_schema(self._declared)).load()
            return rows.select(*mongodb_values.declared_columns(self._declared))
        return reader.load()

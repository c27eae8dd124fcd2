"""State that users' code may leave in a driver, and its removal before the next task.

A task has a session of its own; this is about state that sessions share. It is cleared while
nothing runs: tasks that run side by side see the same cached tables, global views and tables of the
catalogue.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

DEFAULT = "default"  # the database that cannot be dropped


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The state of a process: its environment, its folder, and where it looks for modules."""

    environ: Mapping[str, str]
    folder: str
    path: tuple[str, ...]

    @classmethod
    def present(cls) -> ProcessState:
        return cls(dict(os.environ), _folder(), tuple(sys.path))

    def restore(self) -> None:
        if dict(os.environ) != self.environ:
            os.environ.clear()
            os.environ.update(self.environ)
        if self.folder and _folder() != self.folder:
            os.chdir(self.folder)
        if tuple(sys.path) != self.path:
            sys.path[:] = self.path


def _folder() -> str:
    """Empty where it has been deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


@dataclass(frozen=True, slots=True)
class HadoopSettings:
    """The settings of Hadoop, which all sessions share: where stores are, and the credentials that
    open them."""

    values: JavaObject

    @classmethod
    def present(cls, spark: SparkSession) -> HadoopSettings:
        return cls(spark.sparkContext._jsc.hadoopConfiguration().getPropsWithPrefix(""))

    def restore(self, spark: SparkSession) -> None:
        now = HadoopSettings.present(spark).values
        if now.equals(self.values):
            return
        conf = spark.sparkContext._jsc.hadoopConfiguration()
        for name in _only_in(spark, now, self.values):
            conf.unset(name)
        for name in _only_in(spark, self.values, now):
            conf.set(name, self.values.get(name))


def _only_in(spark: SparkSession, values: JavaObject, others: JavaObject) -> list[str]:
    """Names with another value, or none, among the others."""
    assert spark._jvm is not None
    left = spark._jvm.java.util.HashMap(values)
    left.entrySet().removeAll(others.entrySet())
    return list(left.keySet())


def reset_catalogue(spark: SparkSession) -> None:
    """Cached tables, global views, and all that was made in the catalogue."""
    state = spark._jsparkSession.sharedState()
    spark.catalog.clearCache()
    state.globalTempViewManager().clear()
    catalogue = state.externalCatalog()
    for name in _names(catalogue.listDatabases()):
        if name != DEFAULT:
            catalogue.dropDatabase(name, True, True)
    for name in _names(catalogue.listTables(DEFAULT)):
        catalogue.dropTable(DEFAULT, name, True, True)
    for name in _names(catalogue.listFunctions(DEFAULT, "*")):
        catalogue.dropFunction(DEFAULT, name)


def _names(sequence: object) -> list[str]:
    """The names in a sequence of the JVM's."""
    return [sequence.apply(i) for i in range(sequence.size())]  # type: ignore[attr-defined]  # as py4j shows it

"""Settings of Spark for tests, whose tables have a few rows: compiling code for them takes longer
than they do.

Sessions of tests interpret expressions, but for the files that use the fixture `compiled`, and for
all files on one turn in `COMPILED_ONCE_IN` (tests.slices). Drivers that tests start as processes
always compile, as in production. Does not belong here: settings of the product.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tests import slices

COMPILED_ONCE_IN = 8
# Spark's defaults
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def code_generation(turn: int = slices.TURN) -> dict[str, str]:
    """Settings for the session that tests share, in this run."""
    return COMPILED if turn % COMPILED_ONCE_IN == 0 else INTERPRETED


@contextmanager
def new_sessions_with(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Begin all new sessions with these settings meanwhile, those of the product as well.

    A setting with which `spark` was started wins over these.
    """
    shared = spark._jsparkSession.sharedState().conf()
    before = {name: shared.get(name) if shared.contains(name) else None for name in settings}
    try:
        for name, value in settings.items():
            shared.set(name, value)
        yield
    finally:
        for name, previous in before.items():
            shared.remove(name) if previous is None else shared.set(name, previous)

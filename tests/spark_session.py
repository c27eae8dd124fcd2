"""The one Spark session of a test process, wherever tests use it.

Does not belong here: what is run in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    # Spark is imported by the tests that use it alone.
    from dataplane.spark.hadoop import conf_for
    from dataplane.spark.spark_session import start, stop
    from tests.jars import delta_classpath
    from tests.spark.session_settings import code_generation

    conf = conf_for("s3://of-some-tests", {})
    classpath = f"{delta_classpath()}:{conf['spark.driver.extraClassPath']}"
    ours = {
        "spark.log.level": "OFF",
        "spark.driver.memory": "1g",
        "spark.driver.extraClassPath": classpath,
    }
    session = start(tmp_path_factory.mktemp("spark"), {**conf, **ours})
    # They hold until the session ends, which may be before this fixture does: nothing is set back.
    for name, value in code_generation().items():
        session.conf.set(name, value)
        session._jsparkSession.sharedState().conf().set(name, value)
    yield session
    stop(session)

"""What Spark is told of a lake on Google Cloud Storage: no credential."""

from __future__ import annotations

from pathlib import Path

import pyspark

from dataplane.spark.hadoop import conf_for
from dataplane.spark.jars import GCS, coordinates


def test_spark_looks_for_credentials_where_others_do(tmp_path: Path) -> None:
    (tmp_path / "a.jar").touch()
    environ = {"HEADGATE_JARS": str(tmp_path), "GOOGLE_APPLICATION_CREDENTIALS": "/a/file"}
    assert conf_for("gs://bucket/x", environ) == {
        "spark.driver.extraClassPath": f"{tmp_path}/a.jar",
        "spark.executor.extraClassPath": f"{tmp_path}/a.jar",
        "spark.hadoop.fs.gs.impl": "org.apache.hadoop.fs.gs.GoogleHadoopFileSystem",
        "spark.hadoop.fs.gs.auth.type": "APPLICATION_DEFAULT",
    }


def test_hadoop_is_that_of_pyspark() -> None:
    (ours,) = (c.rpartition(":")[2] for c in coordinates(GCS))
    assert (Path(pyspark.__file__).parent / "jars" / f"hadoop-client-api-{ours}.jar").is_file()

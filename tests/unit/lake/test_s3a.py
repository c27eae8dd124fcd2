"""What Spark is told of a lake on S3: where it is, and nothing secret."""

from __future__ import annotations

from pathlib import Path

from dataplane.spark.hadoop import conf_for, together
from dataplane.spark.jars import S3, coordinates, given_conf

SECRETS = {
    "AWS_ACCESS_KEY_ID": "the-key",
    "AWS_SECRET_ACCESS_KEY": "the-secret",
    "AWS_SESSION_TOKEN": "the-token",
}


def test_jars_lie_where_one_says(tmp_path: Path) -> None:
    for name in ("b.jar", "a.jar", "readme"):
        (tmp_path / name).touch()
    conf = conf_for("s3://bucket/x", {"HEADGATE_JARS": str(tmp_path)})
    assert conf["spark.driver.extraClassPath"] == f"{tmp_path}/a.jar:{tmp_path}/b.jar"


def test_whatever_the_lake_is_given_jars_are_found_and_delta_is_on_where_it_is_among_them(
    tmp_path: Path,
) -> None:
    assert given_conf({}) == {}
    environ = {"HEADGATE_JARS": str(tmp_path)}
    (tmp_path / "a.jar").touch()
    paths = {f"spark.{who}.extraClassPath": f"{tmp_path}/a.jar" for who in ("driver", "executor")}
    assert given_conf(environ) == paths
    (tmp_path / "delta-spark_4.2_2.13-4.4.0.jar").touch()
    assert given_conf(environ)["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"


def test_the_server_is_told_and_no_credential(tmp_path: Path) -> None:
    jars = {"HEADGATE_JARS": str(tmp_path)}
    conf = conf_for(
        "s3://bucket/x",
        {**jars, **SECRETS, "AWS_REGION": "r", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
    )
    assert conf["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:9"
    assert conf["spark.hadoop.fs.s3a.connection.ssl.enabled"] == "false"
    assert conf["spark.hadoop.fs.s3a.endpoint.region"] == "r"
    assert not any(secret in value for secret in SECRETS.values() for value in conf.values())
    assert "spark.hadoop.fs.s3a.endpoint" not in conf_for("s3://bucket/x", {**jars, **SECRETS})


def test_users_settings_win_and_class_paths_are_joined() -> None:
    found = together(
        {"a": "1", "b": "1", "x.extraClassPath": "/ours"}, {"b": "2", "x.extraClassPath": "/theirs"}
    )
    assert found == {"a": "1", "b": "2", "x.extraClassPath": "/theirs:/ours"}


def test_other_lakes_need_nothing() -> None:
    assert conf_for("", {}) == conf_for("file:///x", {}) == {}


def test_hadoop_is_that_of_pyspark() -> None:
    import pyspark

    (ours,) = (c.rpartition(":")[2] for c in coordinates(S3) if ":hadoop-aws:" in c)
    assert (Path(pyspark.__file__).parent / "jars" / f"hadoop-client-api-{ours}.jar").is_file()

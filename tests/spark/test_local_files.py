"""Local files are written as they should be, and no process is started for any of them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from pyspark.sql import SparkSession

# Of the fields of /proc/PID/stat after the name: page faults of children that were waited for
CMINFLT = 8


def _faults_of_children(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[CMINFLT])


def test_no_process_is_started_for_a_file(spark: SparkSession, tmp_path: Path) -> None:
    """Not for any of several writes, but that a Python worker of an earlier test may end
    meanwhile."""
    jvm = spark._jvm
    assert jvm is not None
    pid, rows = (
        jvm.java.lang.ProcessHandle.current().pid(),
        spark.range(40).selectExpr("id", "id % 20 AS part"),
    )
    told = [_faults_of_children(pid)]
    for number in range(5):
        rows.write.partitionBy("part").parquet(str(tmp_path / f"{number}"))
        told.append(_faults_of_children(pid))
    assert 0 in [after - before for before, after in pairwise(told)]
    assert spark.read.parquet(str(tmp_path / "0")).count() == 40


def test_files_have_the_permissions_and_no_checksums(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(1).write.parquet(str(tmp_path / "out"))
    assert {path.suffix for path in tmp_path.joinpath("out").iterdir()} == {".parquet"}
    assert tmp_path.joinpath("out").stat().st_mode & 0o777 == 0o755
    assert {path.stat().st_mode & 0o777 for path in tmp_path.joinpath("out").iterdir()} == {0o644}


def test_permissions_can_be_set(spark: SparkSession, tmp_path: Path) -> None:
    jvm, file = spark._jvm, tmp_path / "file"
    assert jvm is not None
    file.touch()
    path = jvm.org.apache.hadoop.fs.Path(str(file))
    files = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    files.setPermission(path, jvm.org.apache.hadoop.fs.permission.FsPermission("640"))
    assert file.stat().st_mode & 0o777 == 0o640

"""The archive of Spark's classes: where it is looked for, who makes it, and that it is never in the
way.

Does not belong here: how much is gained by it.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dataplane.spark.class_archive import FOLDER, UNUSED_S, archive, in_order, making, options
from dataplane.spark.java import provide_java
from dataplane.spark.spark_session import jvm_options
from dataplane.spark.warmup import meanwhile
from tests.e2e.workspace import until

OURS = {"HEADGATE_PARENT_PIPE": "1"}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """This one, with no archive yet."""
    return {**os.environ, FOLDER: str(tmp_path / "archives")}


def test_each_class_path_has_its_own(environ: dict[str, str]) -> None:
    plain = archive({}, environ)
    assert plain == archive({"spark.driver.memory": "1g"}, environ)
    assert plain != archive({"spark.driver.extraClassPath": "/more.jar"}, environ)
    assert plain is not None
    assert plain.parent == Path(environ[FOLDER])


def test_it_lies_in_the_users_cache(tmp_path: Path) -> None:
    found = archive({}, {**os.environ, FOLDER: "", "XDG_CACHE_HOME": str(tmp_path)})
    assert found is not None
    assert found.parent == tmp_path / "headgate" / "classes"


@pytest.mark.parametrize(
    "why", [{FOLDER: "off"}, {"PATH": "", "JAVA_HOME": ""}, {"JAVA_HOME": "/nowhere"}]
)
def test_there_is_none_where_none_is_wanted_or_java_is_not_there(
    environ: dict[str, str], why: dict[str, str]
) -> None:
    assert archive({}, environ | why) is None
    assert options({}, environ | why) == ""
    with meanwhile(environ | why | OURS):
        pass


def test_where_archives_are_carried_along_the_class_path_does_not_depend_on_the_file_system(
    tmp_path: Path,
) -> None:
    name = "spark.driver.extraClassPath"
    assert (
        in_order({name: "/a.jar"}, {})
        == in_order({name: "/a.jar"}, {FOLDER: "off"})
        == {name: "/a.jar"}
    )
    given, *own = in_order({name: "/a.jar"}, {FOLDER: str(tmp_path)})[name].split(":")
    assert given == "/a.jar"
    assert own == sorted(own)
    assert any("/spark-core_" in jar for jar in own)
    assert in_order({}, {FOLDER: str(tmp_path)})[name].split(":") == own


def test_a_jvm_is_told_of_one_that_is_there(environ: dict[str, str]) -> None:
    assert options({}, environ) == ""
    found = archive({}, environ)
    assert found
    _leave(found, b"made")
    assert found.read_bytes() == b"made"
    assert f"-XX:SharedArchiveFile={found}" in options({}, environ)


def test_one_that_was_not_finished_is_none(environ: dict[str, str]) -> None:
    found = archive({}, environ)
    assert found
    with pytest.raises(OSError, match="died"):
        _leave(found, b"half", OSError("died"))
    assert not found.exists()


def test_a_jvm_passes_over_what_is_no_archive(tmp_path: Path, environ: dict[str, str]) -> None:
    found = archive({}, environ)
    assert found
    found.parent.mkdir()
    found.write_bytes(b"no archive at all" * 1000)
    command = [
        provide_java(),
        *(word.strip('"') for word in options({}, environ).split()),
        "-version",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "error" not in ran.stdout + ran.stderr


def test_a_driver_of_this_machine_has_it_made_and_ends_that_with_itself(
    environ: dict[str, str],
) -> None:
    before = _children()
    with meanwhile(environ):  # a pod, or a driver that was started by hand
        assert _children() == before
    with meanwhile(environ | OURS):
        (child,) = until(lambda: _children() - before, lambda: "no process has begun")
        until(
            lambda: os.sched_getscheduler(int(child)) == os.SCHED_IDLE,
            lambda: "the process has another priority",
        )
    assert _children() == before


def test_it_is_made_though_the_thread_that_began_it_has_ended(environ: dict[str, str]) -> None:
    """A driver starts Spark in such a thread. Linux kills processes that ask for it when the thread
    that started them ends."""
    before = _children()
    lock = Path(environ[FOLDER]) / "lock"  # by then the process has asked for it
    with ExitStack() as driver:
        starting = threading.Thread(
            target=lambda: (
                driver.enter_context(meanwhile(environ | OURS)),
                until(lock.exists, lambda: "no archive is made"),
            )
        )
        starting.start()
        place = Path(f"/proc/self/task/{starting.native_id}")
        starting.join()
        until(lambda: not place.exists(), lambda: "the thread has not ended")
        (child,) = _children() - before
        assert Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    assert _children() == before


def test_unfinished_ones_are_deleted_when_another_one_is_made(environ: dict[str, str]) -> None:
    """A process that makes one may be killed."""
    other, made = (archive({"spark.driver.extraClassPath": f"/{n}.jar"}, environ) for n in "ab")
    assert other
    assert made
    other.parent.mkdir(parents=True)
    abandoned = other.with_suffix(".new")
    abandoned.write_bytes(b"half")
    _leave(made, b"classes")
    assert made.is_file()
    assert not abandoned.exists()


def test_what_nobody_has_used_for_a_month_goes_when_another_one_is_made(
    environ: dict[str, str],
) -> None:
    old, used, made = (
        archive({"spark.driver.extraClassPath": f"/{n}.jar"}, environ) for n in "abc"
    )
    assert old
    assert used
    assert made
    for found in (old, used, made):
        _leave(found, b"classes")
    os.utime(old, (time.time() - UNUSED_S - 60,) * 2)
    os.utime(used, (time.time(), time.time() - UNUSED_S - 60))
    _leave(made, b"classes")
    assert [found.is_file() for found in (old, used, made)] == [False, True, True]


def _leave(found: Path, content: bytes, error: Exception | None = None) -> None:
    """What a session does that makes an archive."""
    with making(found) as option:
        Path(option.split('"')[1].partition("=")[2]).write_bytes(content)
        if error:
            raise error


def _children() -> set[str]:
    """Of all threads."""
    return {
        child
        for of_thread in Path("/proc/self/task").glob("*/children")
        for child in of_thread.read_text().split()
    }


def test_there_is_room_for_the_code_of_all_queries_that_are_kept(spark: SparkSession) -> None:
    """Without the second compiler a JVM has 48 MB by default, which a thousand queries fill: then
    it ends."""
    jvm = spark._jvm
    assert jvm is not None
    beans = jvm.java.lang.management.ManagementFactory
    kind = jvm.java.lang.Class.forName("com.sun.management.HotSpotDiagnosticMXBean")
    size = beans.getPlatformMXBean(kind).getVMOption("ReservedCodeCacheSize").getValue()
    assert int(size) >= 200 << 20


def test_options_of_the_environment_come_last_and_so_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_JVM", "-Xss2m -XX:TieredStopAtLevel=1")
    told = jvm_options(tmp_path, "-Xlog:disable")["spark.driver.extraJavaOptions"].split()
    assert told[-3:] == ["-Xlog:disable", "-Xss2m", "-XX:TieredStopAtLevel=1"]
    monkeypatch.delenv("HEADGATE_JVM")
    assert jvm_options(tmp_path, "")["spark.driver.extraJavaOptions"].endswith(
        f"-Djava.io.tmpdir={tmp_path}"
    )

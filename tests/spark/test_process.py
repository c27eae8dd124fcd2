"""The real process, started as the pool of a control plane starts it, and what is left of it when
it has ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from dataplane.contract.claims import Claim
from dataplane.contract.results import MANIFEST, Manifest, Measures
from dataplane.runtime import process_group
from tests.spark.conftest import Folders, done, failed, query
from tests.spark.plane import TOKEN, Plane

ROOT = Path(__file__).parents[2]
DRIVER = [sys.executable, "-m", "dataplane", "driver"]
PARENT = """
import subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
print(child.pid, flush=True)
child.wait()
"""
UDF = """
import pyspark.sql.functions as F
def transform(spark):
    return spark.range(3).select(F.udf(lambda n: n + 1, "bigint")("id").alias("n"))
"""
WAITS = """
import time
def transform(spark, params):
    open(params["started"], "w").close()
    while True:
        spark.range(3).count()
"""


def environment(folder: Path, plane: Plane, **more: str) -> dict[str, str]:
    token, scratch = folder / "token", folder / "tmp"
    token.write_text(TOKEN + "\n")
    scratch.mkdir(exist_ok=True)
    conf = {"spark.log.level": "ERROR", "spark.driver.memory": "512m"}
    return {
        **os.environ,
        "HEADGATE_URL": plane.url,
        "HEADGATE_TOKEN_FILE": str(token),
        "HEADGATE_PARENT_PIPE": "1",
        "HEADGATE_CLASSES": "off",  # else a process beside the driver makes an archive
        "HEADGATE_SPARK_CONF": json.dumps(conf),
        "TMPDIR": str(scratch),
        **more,
    }


@contextmanager
def driver(folder: Path, plane: Plane, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    with (
        (folder / "log").open("ab") as log,
        subprocess.Popen(
            DRIVER,
            stdin=subprocess.PIPE,
            stderr=log,
            cwd=ROOT,
            env=environment(folder, plane, **more),
            process_group=0,  # as local pools start drivers
        ) as process,
    ):
        try:
            yield process
        finally:
            process_group.kill(process)


def python_job(main: str, **params: Any) -> dict[str, Any]:
    job = query(
        "", language="python", modules={"main.py": main}, main="main.py", entrypoint="transform"
    )
    return {**job, "params": params}


def with_event_log(folder: Path) -> dict[str, str]:
    (folder / "events").mkdir()
    conf = {
        "spark.log.level": "ERROR",
        "spark.driver.memory": "512m",
        "spark.eventLog.enabled": "true",
    }
    return {
        "HEADGATE_SPARK_CONF": json.dumps(
            {**conf, "spark.eventLog.dir": (folder / "events").as_uri()}
        )
    }


def assert_measured(measures: Measures, folder: Path) -> None:
    assert 0 < measures["seconds"] < 600
    assert measures["spark_jobs"] >= 1
    assert measures["spark_stages"] >= 1
    assert [path.name for path in (folder / "events").iterdir()] == [
        Path(measures["event_log"]).name
    ]
    assert "spark_ui" not in measures


def short_lived(claim: Claim) -> Claim:
    """Its driver is to call often."""
    return cast("Claim", {**claim, "lease_s": 0.5})


def descendants(pid: int) -> list[int]:
    found = subprocess.run(
        ["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split()
    return [p for child in map(int, found) for p in (child, *descendants(child))]


def members(group: int) -> list[str]:
    """The processes of a group that run."""
    return subprocess.run(
        ["pgrep", "-g", str(group), "-r", "D,I,R,S,T"], capture_output=True, text=True, check=False
    ).stdout.split()


def wait_until_gone(pids: list[int]) -> None:
    while [pid for pid in pids if is_running(pid)]:
        threading.Event().wait(0.02)


def is_running(pid: int) -> bool:
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return bool(state.strip()) and not state.startswith("Z")


def wait_for(path: Path) -> None:
    while not path.exists():
        threading.Event().wait(0.02)


def test_killed_after_its_manifest_and_followed_by_one_that_tidies_up_works_and_drains(
    folders: Folders, tmp_path: Path
) -> None:
    lost, quick = (folders.claim("transform", query("SELECT 1 AS a"), [{}]) for _ in range(2))
    points = {"HEADGATE_FAILPOINTS": "driver-after-manifest"}
    with Plane().serving() as plane, driver(tmp_path, plane, **points) as process:
        plane.claims.put(lost)
        assert process.wait() == -signal.SIGKILL
        assert plane.reports.empty()
    assert done(manifest_of(folders, lost)["results"][0])["content"][0] == 1
    assert len(list((tmp_path / "tmp").iterdir())) == 1

    started = tmp_path / "started"
    slow = folders.claim("transform", python_job(WAITS, started=str(started)), [{}])
    with Plane().serving() as plane, driver(tmp_path, plane, **with_event_log(tmp_path)) as process:
        plane.claims.put(short_lived(slow))
        wait_for(started)
        plane.fenced.add(slow["attempt"])
        plane.claims.put(quick)
        report = plane.reports.get()
        family = descendants(process.pid)
        plane.claims.put(short_lived(folders.claim("analyse", query("SELECT 1 AS a"), [{}])))
        plane.drain = True
        assert process.wait() == 0
        assert [pid for pid in family if is_running(pid)] == []
    assert (report["attempt"], report["results"]) == (
        quick["attempt"],
        manifest_of(folders, quick)["results"],
    )
    assert_measured(report["measures"], tmp_path)
    assert manifest_of(folders, quick)["versions"].keys() == {"spark", "python", "headgate"}
    assert not (folders.root / slow["prefix"] / MANIFEST).exists()
    assert list((tmp_path / "tmp").iterdir()) == []
    assert "event=attempt attempt=" in (tmp_path / "log").read_text()


def test_a_jvm_that_runs_out_of_memory_is_told_of(folders: Folders, tmp_path: Path) -> None:
    """It is nobody's error, not of code that asked it for something else either; and it is the last
    line of the log."""
    started = tmp_path / "started"
    beside = folders.claim("transform", python_job(WAITS, started=str(started)), [{}])
    large = folders.claim(
        "transform", query("SELECT repeat(CAST(id AS STRING), 2000000000) AS a FROM range(1)"), [{}]
    )
    with Plane().serving() as plane, driver(tmp_path, plane) as process:
        plane.claims.put(beside)
        wait_for(started)
        plane.claims.put(large)
        assert process.wait() == 1
        reports = [plane.reports.get() for _ in range(plane.reports.qsize())]
    errors = [failed(result) for report in reports for result in report["results"]]
    assert {(error["kind"], error["condition"]) for error in errors} == {
        ("infrastructure", "driver-out-of-memory")
    }
    last = (tmp_path / "log").read_text().splitlines()[-1]
    assert last.endswith(
        'event=spark-gone reason="Spark\'s JVM ran out of memory (OutOfMemoryError)"'
    )


def manifest_of(folders: Folders, claim: Claim) -> Manifest:
    manifest: Manifest = json.loads((folders.root / claim["prefix"] / MANIFEST).read_text())
    return manifest


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ("spark.x=1", "HEADGATE_SPARK_CONF is no JSON object"),
        (
            '{"spark.sql.session.timeZone": "nowhere"}',
            "Spark does not start with a setting of HEADGATE_SPARK_CONF: ",
        ),
    ],
)
def test_settings_that_spark_refuses_are_told_of_each_task(
    folders: Folders, tmp_path: Path, conf: str, message: str
) -> None:
    with Plane().serving() as plane, driver(tmp_path, plane, HEADGATE_SPARK_CONF=conf):
        for _ in range(2):
            plane.claims.put(folders.claim("transform", query("SELECT 1 AS a"), [{}]))
            (result,) = plane.reports.get()["results"]
            error = result["error"]
            assert (result["state"], error["kind"], error["condition"]) == (
                "failed",
                "user",
                "spark-conf-invalid",
            )
            assert error["message"].startswith(message)


def test_the_hosts_name_need_not_have_an_address(folders: Folders, tmp_path: Path) -> None:
    """As where an image is built, and on machines that are not in any DNS."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    with (
        Plane().serving() as plane,
        driver(tmp_path, plane, HEADGATE_JVM=f"-Djdk.net.hosts.file={hosts}") as process,
    ):
        plane.claims.put(folders.claim("transform", query("SELECT 1 AS a"), [{}]))
        while plane.reports.empty():
            assert process.poll() is None
            threading.Event().wait(0.02)
        (result,) = plane.reports.get()["results"]
    assert done(result)["content"][0] == 1


def test_told_to_end_while_spark_starts(folders: Folders, tmp_path: Path) -> None:
    with Plane().serving() as plane, driver(tmp_path, plane) as process:
        while len(descendants(process.pid)) < 2:  # the group's shell, and Spark's
            threading.Event().wait(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
        while members(process.pid):  # its JVM may have started after the signal
            threading.Event().wait(0.02)


def test_nothing_is_left_when_the_parent_is_killed(folders: Folders, tmp_path: Path) -> None:
    with Plane().serving() as plane, (tmp_path / "log").open("ab") as log:
        plane.claims.put(folders.claim("transform", python_job(UDF), [{}]))
        with subprocess.Popen(
            [sys.executable, "-c", PARENT, *DRIVER],
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=ROOT,
            env=environment(tmp_path, plane),
        ) as parent:
            assert parent.stdout
            pid = int(parent.stdout.readline())
            assert done(plane.reports.get()["results"][0])["content"][0] == 3
            family = [pid, *descendants(pid)]
            assert len(family) >= 3  # the driver, its JVM, the JVM's Python
            parent.kill()
            wait_until_gone(family)

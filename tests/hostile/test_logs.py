"""Lines that cannot be written or rendered, and threads that end: work goes on, or the process ends
with a reason."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from controlplane import logs
from tests.e2e.workspace import COMMAND, HANGS_S, Service, Workspace, ended, until
from tests.slices import sliced

HERE = Path(__file__).parent
FLOW = """\
dataflow: shop
components:
  orders: {read: {connector: files, path: orders/*.csv, format: csv, schema: id BIGINT}}
"""


class Full(io.StringIO):
    """A disk that is full for a time."""

    is_full = True

    def write(self, text: str, /) -> int:
        if self.is_full:
            raise OSError(28, "No space left on device")
        return super().write(text)


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("nothing to be said")


def test_lost_lines_are_counted_and_told_once() -> None:
    disk = Full()
    log = logs.Enduring(disk)
    for number in range(3):
        log.write(f"{number}\n")
    disk.is_full = False
    log.write("3\n")
    log.write("4\n")
    assert disk.getvalue() == "3 lines of this log could not be written\n3\n4\n"


def test_a_closed_stream_takes_lines() -> None:
    inner = io.StringIO()
    inner.close()
    log = logs.Enduring(inner)
    log.write("into nothing\n")
    log.flush()
    assert not log.isatty()


@pytest.mark.parametrize(
    "field",
    [Unspeakable(), "\udc80", b"\xff", {1: object()}],
    ids=["repr", "surrogate", "bytes", "keys"],
)
def test_no_field_is_too_odd(field: object, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    logs.get("test").warning("told all the same", odd=field)
    assert "told all the same" in capsys.readouterr().err


def test_a_field_that_nests_without_end() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    logs.get("test").warning("told all the same", odd=deep)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    found = Workspace(tmp_path)
    found.write("shop.yaml", FLOW)
    found.write("orders/1.csv", "1\n")
    yield found
    found.end_all()


def _has_listed(workspace: Workspace, count: int) -> bool:
    return workspace.listed() >= count


def works(workspace: Workspace, service: Service) -> None:
    """Its loop lists, again and again, and says so in its log, as far as it can."""
    workspace.ask("apply", "shop.yaml")
    with service.client() as client:
        for count in range(1, 4):
            until(partial(_has_listed, workspace, count), lambda: "nothing is listed")
            workspace.ask("refresh", "shop")
            assert client.is_ready()


# Both are an error of the same write
@pytest.mark.parametrize("out", sliced(["/dev/full", "left"], 2))
def test_a_service_whose_log_cannot_be_written(workspace: Workspace, out: str) -> None:
    """As `serve 2>&1 | head -1`, and as a log on a full disk."""
    if out == "left":
        reading, writing = os.pipe()
        os.close(reading)
    else:
        writing = os.open(out, os.O_WRONLY)
    command = [*COMMAND, "serve", "--home", str(workspace.home), "--port", "0"]
    environment = {**os.environ, "E2E_MARK": workspace.mark}
    process = subprocess.Popen(
        command,
        cwd=workspace.folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=writing,
    )
    os.close(writing)
    with ended(process):
        works(workspace, Service(workspace, process))
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANGS_S) == 0


def test_what_a_task_prints_on_a_full_disk_fails_no_task() -> None:
    code = "import sys; from dataplane.secrets import Printing; sys.stdout = Printing(sys.stdout)\n"
    code += (
        "for _ in range(9999): print('a line of a user', flush=True)\nsys.stderr.write('went on')"
    )
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.stderr.startswith(b"went on")


def test_a_loop_that_ends_ends_the_process(workspace: Workspace) -> None:
    command = [
        sys.executable,
        str(HERE / "dying.py"),
        "serve",
        "--home",
        str(workspace.home),
        "--port",
        "0",
    ]
    environment = {**os.environ, "E2E_MARK": workspace.mark, "PYTHONPATH": str(HERE.parents[1])}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=HANGS_S
    )
    assert done.returncode == 1, done.stderr
    assert "the loop ended (" in done.stderr
    workspace.assert_alone()

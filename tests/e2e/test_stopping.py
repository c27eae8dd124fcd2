"""A service that is stopped, in good order or not, goes on where it was."""

from __future__ import annotations

import json
import signal
import sqlite3

from tests.e2e.test_service import LETTERS
from tests.e2e.workspace import Service, Workspace, ended, until
from tests.slices import takes_turns


def lines(service: Service) -> int:
    with service.client() as client:
        return int(client.dataset("letters.lines")["rows"])


def counted(workspace: Workspace, service: Service, rows: int) -> None:
    """Wait until every table holds so many rows."""
    until(lambda: lines(service) == rows, lambda: f"{rows} lines")
    assert workspace.ask("wait")["state"] == "up_to_date"
    assert workspace.ask("preview", "letters.count") == [{"n": rows}]


# Signals are asked of unit/cli/test_signals; a home is taken up after worse at each commit
# (`test_crashes`).
@takes_turns(1, 3)
def test_a_stopped_service_goes_on(workspace: Workspace) -> None:
    workspace.write("letters/a.txt", "one\ntwo\n")
    workspace.write("letters.yaml", LETTERS)
    with workspace.serving() as service:
        workspace.ask("apply", "letters.yaml", "--wait")
        workspace.write("letters/b.txt", "three\n")
        until(lambda: lines(service) == 3, lambda: "b.txt is read")
        assert service.stop(signal.SIGTERM) == 0  # perhaps in the midst of what follows
    workspace.assert_alone()
    assert not (workspace.home / "server.json").exists()

    workspace.write("letters/c.txt", "four\n")
    with workspace.serving() as service:
        counted(workspace, service, 4)
        workspace.write("letters/d.txt", "five\n")
        until(lambda: lines(service) == 5, lambda: "d.txt is read")
        assert service.stop(signal.SIGKILL) == -signal.SIGKILL
    workspace.assert_alone()

    with workspace.serving() as service:
        counted(workspace, service, 5)
        executed = workspace.counted()
        assert service.stop(signal.SIGINT) == 0
    # a parse and a row-wise task per file; the count ran at most once for each number of rows
    assert 4 * 2 + 2 <= executed["task.executed"] + executed.get("task.recovered", 0) <= 4 * 2 + 4
    last = workspace.run("letters.yaml")
    last.assert_idle()
    workspace.assert_tidy()
    workspace.assert_alone()


@takes_turns(2, 3)
def test_an_interrupted_run_says_so_and_the_next_goes_on(workspace: Workspace) -> None:
    workspace.write("letters/a.txt", "one\ntwo\n")
    workspace.write("letters.yaml", LETTERS)
    with ended(
        workspace.start("run", "letters.yaml", "--home", workspace.home, "--output", "json")
    ) as process:
        until(
            lambda: (workspace.home / "metadata.db").exists() and wants_spark(workspace),
            lambda: "no task of Spark's",
        )
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()
    assert process.returncode == 1
    assert json.loads(out)["type"] == "urn:headgate:interrupted"
    assert err.decode().count("interrupted") == 1
    workspace.assert_alone()
    workspace.run("letters.yaml").assert_up_to_date()


def wants_spark(workspace: Workspace) -> bool:
    try:
        return bool(workspace.query("SELECT 1 FROM tasks WHERE kind IN ('infer', 'parse')"))
    except sqlite3.OperationalError:
        return False  # there is no database yet, or no table

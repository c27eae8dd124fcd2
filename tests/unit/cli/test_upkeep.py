"""`headgate gc` and `headgate fsck` as a user runs them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def headgate(*arguments: str) -> int:
    return run(arguments, Bootstrap())


def test_collecting_shows_what_went(capsys: pytest.CaptureFixture[str]) -> None:
    assert headgate("gc") == 0
    assert "nodes in use: 0" in capsys.readouterr().out.splitlines()
    assert headgate("gc", "--packs", "-o", "json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["packs"], answer["states"]) == (0, 0)


def test_checking_exits_by_what_it_finds(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert headgate("fsck", "--files") == 0
    assert capsys.readouterr().out == "nothing is wrong\n"
    with sqlite3.connect(folder / ".headgate" / "metadata.db") as db:
        db.execute("INSERT INTO heads VALUES ('default', 'main', 'flights.daily', 3, 0)")
    db.close()
    assert headgate("fsck") == 1
    (head, finding) = capsys.readouterr().out.splitlines()
    assert head.split() == ["code", "where", "what", "fix"]
    assert finding.startswith(
        "head-without-state  main/flights.daily  its newest state 3 is not there  restore "
    )
    assert headgate("fsck", "--output", "json") == 1
    value = json.loads(capsys.readouterr().out)
    assert ([f["code"] for f in value["findings"]], value["complete"]) == (
        ["head-without-state"],
        True,
    )

"""The list of commands in `headgate --help`."""

from __future__ import annotations

import pytest
import typer

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import application, run
from controlplane.cli.sections import SECTIONS


def test_every_command_stands_in_one_section() -> None:
    group = typer.main.get_group(application())
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(group.commands)


def test_help_lists_commands_by_what_one_wants_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"], Bootstrap()) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = [line for line in lines if line.removesuffix(":") in SECTIONS]
    assert titles == [f"{title}:" for title in SECTIONS]
    assert lines[lines.index("Read rows:") + 1].split()[0] == "preview"
    assert all(len(line) <= 80 for line in lines)

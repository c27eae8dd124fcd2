"""The list of commands in `headgate --help`."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import pytest
import typer

from controlplane import cli
from controlplane.__main__ import Bootstrap
from controlplane.cli.main import application, run
from controlplane.cli.sections import DAILY, MODULES, SECTIONS


def test_every_command_of_a_module_stands_in_one_section() -> None:
    modules = {
        name: import_module(f"controlplane.cli.{name}") for _, name, _ in iter_modules(cli.__path__)
    }
    commands = [
        (command, name)
        for name, module in modules.items()
        if hasattr(module, "COMMANDS")
        for command in module.COMMANDS
    ]
    listed = [each for names in SECTIONS.values() for each in names.items()]
    assert sorted(listed) == sorted(commands)


def test_every_command_that_is_listed_can_be_built() -> None:
    group = typer.main.get_group(application())
    assert {name: group.commands[name].name for name in group.commands} == {
        name: name for name in MODULES
    }
    assert "nothing" not in group.commands


def test_help_lists_commands_by_what_one_wants_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--all"], Bootstrap()) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = [line for line in lines if line.removesuffix(":") in SECTIONS]
    assert titles == [f"{title}:" for title in SECTIONS]
    assert lines[lines.index("Read rows:") + 1].split()[0] == "preview"
    assert all(len(line) <= 80 for line in lines)


def test_help_lists_what_is_used_daily(capsys: pytest.CaptureFixture[str]) -> None:
    assert MODULES.keys() >= DAILY
    assert run(["--help"], Bootstrap()) == 0
    out = capsys.readouterr().out
    assert f"{len(MODULES) - len(DAILY)} more: headgate --all" in out
    assert "  why " in out
    assert "  fsck " not in out


def test_a_slip_is_answered_with_the_nearest_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["statsu"], Bootstrap()) == 64
    assert "Did you mean 'status'" in capsys.readouterr().err

"""The commands of `headgate`: which there are, in which module each is, and the list of them in
`headgate --help`.

A module is imported when one of its commands is called. Only the list imports all of them, for
their first sentences.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from typer._click.core import Command as BuiltCommand
    from typer._click.core import Context
    from typer._click.formatting import HelpFormatter

    from controlplane.cli.command import Command, Group

SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "Describe and compute": {
        "init": "project",
        "run": "embedded",
        "serve": "embedded",
        "demo": "embedded",
        "validate": "look",
        "test": "examples",
        "plan": "look",
        "apply": "operate",
        "delete": "operate",
        "wait": "operate",
    },
    "See what is there, and why": {
        "status": "look",
        "why": "look",
        "history": "look",
        "runs": "activity",
        "cost": "activity",
        "waves": "explore",
        "graph": "explore",
        "search": "explore",
        "lineage": "lineage",
        "checks": "look",
        "open": "pages",
        "partitions": "time_travel",
        "partition": "explore",
        "ranges": "explore",
        "profile": "profiles",
        "generations": "time_travel",
        "diff": "diff",
        "tasks": "activity",
        "logs": "activity",
        "mcp": "assistants",
    },
    "Read rows": {
        "preview": "look",
        "records": "records",
        "changes": "records",
        "query": "query",
        "sql": "sql",
        "connect": "connect",
        "promote": "promote",
        "link": "links",
        "s3": "s3",
        "share": "shares",
        "recipient": "shares",
    },
    "Steer": {
        "refresh": "operate",
        "retry": "operate",
        "pause": "operate",
        "resume": "operate",
        "rollback": "rollback",
        "revert": "rollback",
        "import": "imports",
        "branch": "branches",
        "feed": "feeds",
    },
    "For editors and shells": {"schema": "project", "lsp": "project", "completion": "completion"},
    "Look after the installation": {
        "token": "rights",
        "role": "roles",
        "trust": "trust",
        "namespace": "namespaces",
        "audit": "rights",
        "gc": "upkeep",
        "fsck": "upkeep",
        "db": "upkeep",
        "notify": "alerts",
    },
}
"""By what one wants to do, the more usual commands first: the module of each command."""
MODULES: Final[Mapping[str, str]] = {
    name: module for names in SECTIONS.values() for name, module in names.items()
}
DAILY: Final = frozenset(
    {
        *("init", "run", "serve", "demo", "validate", "plan", "apply"),
        *("status", "why", "open", "logs", "preview", "query", "refresh", "branch"),
    }
)
"""The commands that `headgate --help` shows; `headgate --all` shows all."""


class Sections(TyperGroup):
    """The command `headgate` itself."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = LazyCommands()  # type: ignore[assignment]  # nothing is added to them

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Names and first clauses, each section under its title."""
        shown = MODULES.keys() if ctx.params.get("all") else DAILY
        width = formatter.width - 6 - max(map(len, shown))
        for title, section in SECTIONS.items():
            if names := [name for name in section if name in shown]:
                with formatter.section(title):
                    formatter.write_dl([(name, _first_clause(name, width)) for name in names])
        if left_out := len(MODULES) - len(shown):
            formatter.write_paragraph()
            formatter.write_text(f"{left_out} more: headgate --all")


class LazyCommands(Mapping[str, "BuiltCommand"]):
    """Commands by name, each imported and built when it is looked up."""

    def __getitem__(self, name: str) -> BuiltCommand:
        app = typer.Typer(rich_markup_mode=None)
        _add(app, name, _loaded(name))
        return typer.main.get_group(app).commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


def _loaded(name: str) -> Command | Group:
    """Raises KeyError where there is no such command."""
    module = import_module(f"controlplane.cli.{MODULES[name]}")
    loaded: Command | Group = module.COMMANDS[name]
    return loaded


def _add(app: typer.Typer, name: str, command: Command | Group) -> None:
    if callable(command):
        app.command(name)(command)
        return
    group = typer.Typer(help=command.help, no_args_is_help=True)
    for each, below in command.commands.items():
        _add(group, each, below)
    app.add_typer(group, name=name)


def _first_clause(name: str, width: int) -> str:
    """What its help says first, in one line: whole clauses, so that nothing is cut off."""
    command = _loaded(name)
    text = inspect.getdoc(command) if callable(command) else command.help
    sentence = re.split(r"[.;:](?:\s|$)", " ".join((text or "").split()), maxsplit=1)[0]
    while len(sentence) > width and ", " in sentence:
        sentence = sentence.rpartition(", ")[0]
    return sentence

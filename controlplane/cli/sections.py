"""The list of commands in `headgate --help`, by what one wants to do. Does not belong here: what a command does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from typer.core import TyperGroup

if TYPE_CHECKING:
    from typer._click.core import Context
    from typer._click.formatting import HelpFormatter

SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Describe and compute": ("init", "run", "serve", "demo", "validate", "test", "plan", "apply", "delete", "wait"),
    "See what is there, and why": (
        *("status", "why", "history", "runs", "waves", "graph", "search", "lineage", "checks", "open"),
        *("partitions", "partition", "ranges", "profile", "generations", "diff", "tasks", "logs"),
    ),
    "Read rows": (
        *("preview", "records", "changes", "query", "sql", "connect", "promote", "link", "s3", "share", "recipient"),
    ),
    "Steer": ("refresh", "retry", "pause", "resume", "rollback", "revert", "branch", "feed"),
    "For editors": ("schema", "lsp"),
    "Look after the installation": ("token", "role", "trust", "namespace", "audit", "gc", "fsck", "db", "notify"),
}
"""Every command stands in one of them, the more usual ones first."""


class Sections(TyperGroup):
    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:  # noqa: ARG002  # as Typer calls it
        """Names and first sentences, each section under its title."""
        width = formatter.width - 6 - max(map(len, self.commands))
        for title, names in SECTIONS.items():
            lines = [(name, self.commands[name].get_short_help_str(width)) for name in names]
            with formatter.section(title):
                formatter.write_dl(lines)

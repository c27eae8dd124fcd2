"""`%load_ext headgate`: cells of SQL, whose result is a lazy value, and completion of datasets and
columns in them.

    %%headgate as late
    SELECT carrier, count(*) AS n FROM flights.delays WHERE dep_delay > $minutes GROUP BY ALL

IPython is imported when a notebook loads this module.
"""

from __future__ import annotations

import argparse
import re
import shlex
from typing import TYPE_CHECKING, Any, NoReturn

from controlplane.cli.sql import Completer, Shell
from headgate.connection import Connection, connect
from headgate.errors import Refused, ShortTraceback, as_refused
from headgate.query import Query
from headgate.shown import Shown

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext, SimpleMatcherResult
    from IPython.core.interactiveshell import InteractiveShell

NAME = "headgate"
COMPLETED_WITHIN_S = 5.0
_PARAMETER = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)(?!\w*\$)")
_BETWEEN = re.compile(r"[\s,()=<>+\-*/;]")  # what ends a word of SQL


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Called by `%load_ext headgate`."""
    from IPython.core.completer import context_matcher

    magic = SqlMagic(shell)
    shell.register_magic_function(magic.line_or_cell, "line_cell", NAME)  # type: ignore[arg-type]  # as documented

    @context_matcher(identifier=NAME)  # type: ignore[untyped-decorator]
    def matcher(context: CompletionContext) -> SimpleMatcherResult:
        return magic.matches(context)

    if shell.Completer is not None:
        shell.Completer.custom_matchers.append(matcher)


class Wrong(ShortTraceback):
    """The line of a cell is not understood."""


class _MagicParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Wrong(message)


class SqlMagic:
    """Runs a notebook's cells of SQL. The connection is the notebook's variable `hg`, else the last
    one that was made, else a new one."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def line_or_cell(self, line: str, cell: str | None = None) -> Query | Shown:
        """`%headgate` shows the status of all dataflows, `%headgate SELECT ...` and `%%headgate [as
        NAME] [--branch B] [--at TIME] [--limit N]` are queries. `$name` in a query is the
        notebook's variable of that name."""
        if cell is None:
            return self._query(line) if line.strip() else self.connection.status()
        arguments = _arguments(line)
        query = self._query(cell, branch=arguments.branch, at=arguments.at, limit=arguments.limit)
        if arguments.name:
            self._shell.push({arguments.name: query})  # type: ignore[no-untyped-call]
        return query if arguments.chart is None else query.chart(arguments.chart)

    @property
    def connection(self) -> Connection:
        own = self._shell.user_ns.get("hg")
        if isinstance(own, Connection):
            return own
        last = Connection.last() if Connection.last is not None else None
        if last is None:
            last = connect()
            self._shell.push({"hg": last})  # type: ignore[no-untyped-call]  # which keeps it
        return last

    def _query(
        self, sql: str, branch: str | None = None, at: str | None = None, limit: int | None = None
    ) -> Query:
        connection = self.connection if branch is None else self.connection.branch(branch)
        return connection.query(sql, self._parameters(sql), at=at, limit=limit)

    def _parameters(self, sql: str) -> dict[str, Any] | None:
        """The notebook's values for the names in a query. Only plain values can be sent."""
        variables = self._shell.user_ns
        parameters = {
            name: variables[name] for name in _PARAMETER.findall(sql) if name in variables
        }
        for name, value in parameters.items():
            if not isinstance(value, str | int | float | bool | None):
                words = f"${name} is a {type(value).__name__}; a query takes texts, numbers, truth values and None"
                raise Wrong(words)
        return parameters or None

    def matches(self, context: CompletionContext) -> SimpleMatcherResult:
        """Datasets, columns and words of SQL, in cells of SQL only. Nothing where the service does
        not answer."""
        from IPython.core.completer import SimpleCompletion

        text = context.full_text
        if not re.match(rf"\s*%%?{NAME}\b", text):
            return {"completions": []}
        before = "\n".join(
            [
                *text.split("\n")[: context.cursor_line],
                context.line_with_cursor[: context.cursor_position],
            ]
        )
        typed = _BETWEEN.split(before)[-1]
        completions = [SimpleCompletion(name, type=NAME) for name in self._candidates(text, typed)]
        return {"completions": completions, "suppress": True, "matched_fragment": typed}

    def _candidates(self, text: str, typed: str) -> list[str]:
        try:
            with as_refused():
                connection = self.connection
                shell = Shell(connection.client, connection.branch_name, 1, COMPLETED_WITHIN_S)
                return Completer(shell, lambda: text).candidates(typed)
        except Refused:
            return []


def _arguments(line: str) -> argparse.Namespace:
    # Only cells of SQL need the code of the page
    from headgate.query_chart import KINDS

    parser = _MagicParser(prog=f"%%{NAME}", add_help=False)
    parser.add_argument("as_", metavar="as NAME", nargs="*")
    parser.add_argument("--branch", "-b")
    parser.add_argument("--at")
    parser.add_argument("--limit", "-n", type=int)
    parser.add_argument("--chart", choices=KINDS)
    arguments = parser.parse_args(shlex.split(line))
    words = arguments.as_[1:] if arguments.as_[:1] == ["sql"] else arguments.as_
    match words:
        case []:
            arguments.name = None
        case ["as", name] if name.isidentifier():
            arguments.name = name
        case _:
            raise Wrong(
                f"%%{NAME} [as NAME] [--branch B] [--at TIME] [--limit N] [--chart KIND];"
                f" not {line.strip()!r}"
            )
    return arguments

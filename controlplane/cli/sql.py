"""The shell for queries: lines until a semicolon are a query; history and completion by Python's
readline."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from controlplane import settings
from controlplane.cli import options, query
from controlplane.cli.command import Commands
from controlplane.cli.output import TextTable, problem_lines, show

if TYPE_CHECKING:
    from controlplane.client import Headgate

HISTORY = "sql-history"
HISTORY_LINES = 1000
HELP = """\
A query ends with a semicolon. Tables: shop.orders, shop.orders@12, shop.orders@2026-11-24T07:00Z, dev.shop.orders
\\d               tables of the branch
\\d shop.orders   columns of a table
\\b dev           another branch
\\e spark         another engine: duckdb or spark, each with its own SQL
\\limit 100       rows that are shown at most
\\q               the end
"""
WORDS = """SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT JOIN LEFT ON USING WITH AS AND OR NOT NULL IN BETWEEN LIKE
CASE WHEN THEN ELSE END DISTINCT UNION ALL DESCRIBE SUMMARIZE count( sum( avg( min( max("""


def sql(
    ctx: typer.Context,
    limit: query.Limit = 100,
    timeout: query.Timeout = 60.0,
    engine: query.By = query.Engine.duckdb,
    home: options.Home = None,
    branch: options.Branch = "main",
) -> None:
    """A shell for queries over datasets, with history and completion; \\h lists its commands."""
    session = options.session(ctx)
    with session.connect(home) as client:
        shell = Shell(client, branch, limit, timeout, engine)
        if sys.stdin.isatty():
            _edit_lines(shell, settings.read(home).home / HISTORY)
            sys.stdout.write("\\h for help, \\q to end\n")
        shell.run(_lines(shell))


def _lines(shell: Shell) -> Iterator[str]:
    """Lines from a terminal, with a prompt. Ctrl-C discards an unfinished query, Ctrl-D ends."""
    while True:
        try:
            yield input(shell.prompt if sys.stdin.isatty() else "")
        except KeyboardInterrupt:
            shell.forget()
            sys.stdout.write("\n")
        except EOFError:
            return


@dataclass
class Shell:
    """The lines of an unfinished query, and the settings of the next queries."""

    client: Headgate
    branch: str
    limit: int
    timeout_s: float
    engine: query.Engine = query.Engine.duckdb
    _typed: list[str] = field(default_factory=list)
    _is_over: bool = False
    _columns: dict[str, list[str]] = field(default_factory=dict)

    @property
    def prompt(self) -> str:
        return "    -> " if self._typed else f"{self.branch}> "

    def forget(self) -> None:
        self._typed.clear()

    def run(self, lines: Iterator[str]) -> None:
        for line in lines:
            self.take(line)
            if self._is_over:
                return
        if self._typed:
            self._ask("\n".join(self._typed))

    def take(self, line: str) -> None:
        """One line: a command, or a part of a query."""
        if not self._typed and line.startswith("\\"):
            self._reporting_errors(lambda: self._command(*line[1:].split(maxsplit=1)))
            return
        if line.strip() or self._typed:
            self._typed.append(line)
        if line.rstrip().endswith(";"):
            text = "\n".join(self._typed)
            self.forget()
            self._ask(text)

    def _ask(self, text: str) -> None:
        self._reporting_errors(lambda: self._show(text))

    def _show(self, text: str) -> None:
        value = self.client.query(
            text,
            branch=self.branch,
            limit=self.limit,
            timeout_s=self.timeout_s,
            engine=self.engine.value,
        )
        show(value, query.rows_view(value), "table")

    def _reporting_errors(self, work: Callable[[], None]) -> None:
        """An error ends a query, and not the shell; Ctrl-C cancels the query, as its connection
        ends."""
        from controlplane.client import ApiError

        try:
            work()
        except ApiError as error:
            lines = problem_lines(error.problem["errors"]) or [f"headgate: {error.code}: {error}"]
            sys.stderr.write("\n".join(lines) + "\n")
        except KeyboardInterrupt:
            sys.stderr.write("cancelled\n")

    def _command(self, name: str = "", argument: str = "") -> None:
        match name:
            case "q":
                self._is_over = True
            case "d" if argument:
                rows = tuple((c, kind) for c, kind in self._described(argument.strip()))
                show(rows, [TextTable(("column", "type"), rows)], "table")
            case "d":
                tables = tuple((table,) for table in self.tables())
                show(tables, [TextTable(("table",), tables)], "table")
            case "b" if argument:
                self.client.branch(argument.strip())
                self.branch = argument.strip()
            case "e" if argument.strip() in set(query.Engine):
                self.engine = query.Engine(argument.strip())
            case "limit" if argument.strip().isdigit():
                self.limit = min(int(argument), query.MOST_ROWS)
            case _:
                sys.stdout.write(HELP)

    def _described(self, table: str) -> list[tuple[str, str]]:
        """By DuckDB, as a query of it would find it."""
        value = self.client.query(f"DESCRIBE {table}", branch=self.branch, timeout_s=self.timeout_s)
        return [(str(row[0]), str(row[1])) for row in value["rows"]]

    def tables(self) -> list[str]:
        flows = self.client.status(branch=self.branch)["dataflows"]
        return [dataset["name"] for flow in flows for dataset in flow["datasets"]]

    def columns(self, table: str) -> list[str]:
        if table not in self._columns:
            fields = (self.client.dataset(table, branch=self.branch)["schema"] or {"fields": []})[
                "fields"
            ]
            self._columns[table] = [str(each["name"]) for each in fields]
        return self._columns[table]


class Completer:
    """For readline: tables, columns of the tables that stand in the query, words of SQL."""

    def __init__(self, shell: Shell, line: Callable[[], str]) -> None:
        self._shell, self._line = shell, line
        self._candidates = list[str]()

    def __call__(self, typed: str, number: int) -> str | None:
        if number == 0:
            self._candidates = self.candidates(typed)
        return self._candidates[number] if number < len(self._candidates) else None

    def candidates(self, typed: str) -> list[str]:
        """Empty where the service does not answer: completion reports no errors."""
        from controlplane.client import ApiError

        with suppress(ApiError, OSError):
            tables = self._shell.tables()
            text = "\n".join([*self._shell._typed, self._line()]).lower()
            columns = [
                name for table in tables if table in text for name in self._shell.columns(table)
            ]
            words = [*tables, *dict.fromkeys(columns), *WORDS.split()]
            return [name for name in words if name.lower().startswith(typed.lower())]
        return []


def _edit_lines(shell: Shell, history: Path) -> None:
    """History is in the home, and for its owner alone."""
    import atexit
    import readline

    readline.set_completer(Completer(shell, readline.get_line_buffer))
    readline.set_completer_delims(" \t\n,()=<>+-*/;")
    readline.parse_and_bind(
        "bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete"
    )
    readline.set_history_length(HISTORY_LINES)
    with suppress(OSError):
        history.touch(mode=0o600)
        readline.read_history_file(history)
        atexit.register(readline.write_history_file, history)


COMMANDS: Commands = {"sql": sql}

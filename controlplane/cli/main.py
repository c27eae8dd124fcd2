"""The command line: all commands, and one place where errors become messages and exit codes."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import typer

from controlplane.cli import completion, failures
from controlplane.cli.sections import Sections
from controlplane.cli.session import CliRuntime, Output, Session
from controlplane.core.errors import HeadgateError
from controlplane.settings import BadSetting


def _version(is_requested: bool) -> None:
    if is_requested:
        from controlplane.cli.version import write_version

        write_version()
        raise typer.Exit


def _all(ctx: typer.Context, is_requested: bool) -> bool:
    if is_requested:
        ctx.params["all"] = True
        sys.stdout.write(ctx.get_help() + "\n")
        raise typer.Exit
    return is_requested


def application() -> typer.Typer:
    app = typer.Typer(
        name="headgate",
        cls=Sections,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_top)
    return app


def _top(
    version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_version)] = False,
    all: Annotated[
        bool, typer.Option("--all", is_eager=True, callback=_all, help="Show all commands.")
    ] = False,
) -> None:
    """Keeps dataflows up to date: declare the datasets, Headgate computes the missing parts."""


def run(arguments: Sequence[str], runtime: CliRuntime) -> int:
    """One invocation; returns the exit code. `means` can start a control plane in this process."""
    session = Session(runtime, _requested_form(arguments))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what its encoding lacks ends no command
    try:
        completion.prepare()
        command = typer.main.get_command(application())
        code = command.main(
            list(arguments), prog_name="headgate", standalone_mode=False, obj=session
        )
        return code if isinstance(code, int) else 0
    except typer.Abort:
        return failures.ERROR
    except KeyboardInterrupt:
        return failures.ERROR
    except BrokenPipeError:
        _close_quietly()
        return failures.ERROR
    except Exception as error:  # noqa: BLE001  # the one place where errors become messages
        return _failed(error, session)


def _failed(error: Exception, session: Session) -> int:
    """Report an error that has a message for users. Any other error is a fault of ours, and keeps
    its trace."""
    if getattr(error, "exit_code", None) == 2 and hasattr(error, "format_message"):
        return _wrong_arguments(error, session)
    if not _is_reported(error):
        raise error
    failures.report(failures.document(error, session.names), session.output)
    return failures.ERROR


def _is_reported(error: Exception) -> bool:
    is_ours = isinstance(error, HeadgateError | BadSetting | OSError) or hasattr(error, "problem")
    return is_ours or type(error).__module__.partition(".")[0] in failures.OF_LIBRARIES


def _wrong_arguments(error: Exception, session: Session) -> int:
    message = error.format_message()  # type: ignore[attr-defined]  # of the parser's errors, which Typer does not export
    if session.output in ("json", "yaml"):
        failures.report(failures.usage(message), session.output)
    else:
        error.show()  # type: ignore[attr-defined]
    return failures.USAGE


def _requested_form(arguments: Sequence[str]) -> Output:
    """The form of the answer, for errors that come before the arguments are understood."""
    words = [w for a in arguments for w in a.split("=", 1)]
    for flag, value in pairwise(words):
        if flag in ("--output", "-o") and value in ("json", "yaml"):
            return "json" if value == "json" else "yaml"
    return "table"


def _close_quietly() -> None:
    """The reader of our output has closed it; Python would complain when it flushes at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

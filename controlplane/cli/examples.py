"""The command that runs the tests of blueprints."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import example_views, failures, options
from controlplane.cli.command import Commands
from controlplane.cli.output import Lines, printable, show
from controlplane.core.errors import NotFound

if TYPE_CHECKING:
    from controlplane.cli.example_making import ExampleRequest
    from controlplane.cli.session import Session
    from controlplane.core.model.answers.examples import ExampleEntry, ExamplesAnswer


def run_tests(
    ctx: typer.Context,
    files: Annotated[
        list[Path], typer.Argument(help="Blueprints; with --like a dataset before them.")
    ],
    only: Annotated[
        str, typer.Option("-k", help="Only tests whose dataset or name holds this text.")
    ] = "",
    junit: Annotated[
        Path | None, typer.Option(help="Also write the results to this file, as JUnit's XML.")
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="PARTITION",
            help="Write a test of FLOW.DATASET from this partition, or source object, instead.",
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option(min=1, max=1000, help="With --like: rows of each input at most.")
    ] = 20,
    home: options.Home = None,
    branch: options.Branch = "main",
    output: options.As = options.OutputForm.table,
) -> None:
    """Run the tests of blueprints in one Spark session: that of a service, else one of our own.
    Exits with 1 where one fails.

    `test --like PARTITION FLOW.DATASET [FILE...]` writes a test from committed rows.
    """
    session = options.session(ctx, output)
    if like is not None:
        from controlplane.cli.example_making import ExampleRequest

        if only or junit is not None:
            raise typer.BadParameter("-k and --junit are for running tests, and --like runs none")
        _write_test(session, ExampleRequest(like, str(files[0]), files[1:], home, branch, rows))
        return
    _refuse_unused(ctx)
    answer = _ran(session, files, only, _progress(output))
    if junit is not None:
        junit.write_text(example_views.junit(answer), encoding="utf-8")
    show(answer, example_views.results(answer), session.output)
    raise typer.Exit(failures.ERROR if answer["failed"] else 0)


def _refuse_unused(ctx: typer.Context) -> None:
    """Refuse options that only choose the rows of a written test. A home that the environment names
    is for other commands."""
    for name in ("home", "branch", "rows"):
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(
                "it goes with --like: tests run without a home", param_hint=f"--{name}"
            )


def _write_test(session: Session, request: ExampleRequest) -> None:
    from controlplane.cli import example_making

    text = example_making.test_like(session, request)
    if session.output == "table":
        sys.stdout.write(text)  # as it is: long lines stay whole
    else:
        show(
            {"dataset": request.dataset, "tests": text},
            [Lines(tuple(text.splitlines()))],
            session.output,
        )


def _progress(output: options.OutputForm) -> Callable[[ExampleEntry], None]:
    """Write a line for each test as it ends, to a terminal, where the answer is a table."""

    def show_result(entry: ExampleEntry) -> None:
        if output is options.OutputForm.table and sys.stderr.isatty():
            sys.stderr.write(
                printable(f"{entry['state']:6}  {entry['dataset']}: {entry['name']}") + "\n"
            )

    return show_result


def _ran(
    session: Session, files: list[Path], only: str, on_result: Callable[[ExampleEntry], None]
) -> ExamplesAnswer:
    from controlplane.cli import sources
    from controlplane.cli.example_runner import example_runner
    from controlplane.operations.desired.compile_edit import compile_with_tests
    from controlplane.services.examples import example_verdicts

    began = time.monotonic()
    desired = compile_with_tests(sources.as_sources(session.load(files))).require()
    tests = example_verdicts.named_tests(desired, only)
    if not tests and only:
        raise NotFound(f"no test's dataset or name holds {only!r}")
    if not tests:
        return _answer((), began)
    with example_runner(session) as runner:
        entries = []
        for entry in example_verdicts.run(desired, tests, runner, time.time()):
            on_result(entry)
            entries.append(_as_typed(entry, session))
    return _answer(entries, began)


def _as_typed(entry: ExampleEntry, session: Session) -> ExampleEntry:
    """With the names of files that were typed."""
    entry["file"] = session.names.get(entry["file"], entry["file"])
    error = entry["error"]
    if error is not None and error["file"]:
        error["file"] = session.names.get(error["file"], error["file"])
    return entry


def _answer(entries: Iterable[ExampleEntry], began: float) -> ExamplesAnswer:
    tests = list(entries)
    failed = sum(entry["state"] == "failed" for entry in tests)
    return {
        "state": "failed" if failed else "passed",
        "passed": len(tests) - failed,
        "failed": failed,
        "wall_s": round(time.monotonic() - began, 3),
        "tests": tests,
    }


COMMANDS: Commands = {"test": run_tests}

"""Commands that look and change nothing: validate, plan, status, why, checks, preview, history."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controlplane import settings
from controlplane.cli import (
    completion,
    failures,
    options,
    plan_views,
    views,
    why_views,
    words,
    work_views,
)
from controlplane.cli.command import ClientRequest, Commands, ask, command
from controlplane.cli.output import Lines, problem_excerpts, problem_lines, show
from controlplane.cli.partition_keys import with_stored_key
from controlplane.cli.session import Session
from controlplane.core.errors import Checked, InvalidBlueprint, Problem

if TYPE_CHECKING:
    from controlplane.cli.output import View
    from controlplane.cli.sources import BlueprintText
    from controlplane.client import Headgate
    from controlplane.core.model.answers import ConnectionEntry, PlanAnswer

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many at most.")]
Partition = Annotated[str | None, typer.Option(help="Only this partition.")]
Generation = Annotated[
    int | None, typer.Option(min=1, help="An earlier generation; the same as DATASET@GENERATION.")
]
PREVIEWED = 20
STDIN = "stdin.yaml"  # the name of a blueprint from standard input


def validate(
    ctx: typer.Context,
    files: Annotated[
        list[Path] | None, typer.Argument(help="Blueprints.", show_default=False)
    ] = None,
    stdin: Annotated[
        bool,
        typer.Option(
            "--stdin", help="Read the blueprint from standard input; FILES may say where it lies."
        ),
    ] = False,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also let a worker try every connection.")
    ] = False,
    expand: Annotated[
        bool, typer.Option("--expand", help="Show blueprints with shared parts written out.")
    ] = False,
    home: options.Home = None,
    output: options.As = options.OutputForm.table,
) -> None:
    """Check blueprints without a server; prints every problem as FILE:LINE:COL: code: message
    (hint)."""
    session = options.session(ctx, output)
    _check_arguments(files, is_stdin=stdin, is_more=connect or expand)
    texts = _texts(session, files or [], is_stdin=stdin)
    checked = _checked(texts)
    problems, notices = (
        _with_typed_names(session, checked.problems, texts),
        _with_typed_names(session, checked.notices, texts),
    )
    count = f"{len(texts)} {'blueprint' if len(texts) == 1 else 'blueprints'}: no problems"
    value = {"valid": not problems, "errors": problems, "notices": notices}
    lines = tuple(problem_excerpts(problems)) or (count, *problem_lines(notices))
    if expand and not problems:
        from controlplane.cli.expansion import expansions

        written = expansions(session, files or [])
        value, lines = (
            {**value, "expanded": written},
            tuple("\n".join(written.values()).splitlines()),
        )
    tried = _tried(session, texts, home) if connect and not problems else []
    if connect and not problems:
        value, lines = {**value, "connections": tried}, (*lines, *map(views.connection, tried))
    show(value, [Lines(lines)], session.output)
    raise typer.Exit(failures.ERROR if problems or any(t["error"] for t in tried) else 0)


def _check_arguments(files: list[Path] | None, *, is_stdin: bool, is_more: bool) -> None:
    if not is_stdin and not files:
        raise typer.BadParameter("name blueprints, or read one from standard input with --stdin")
    if is_stdin and len(files or ()) > 1:
        raise typer.BadParameter(
            "standard input is one blueprint: name at most one file with --stdin"
        )
    if is_stdin and is_more:
        raise typer.BadParameter(
            "--stdin does not go with --connect or --expand, which look at files"
        )


def _texts(session: Session, files: Sequence[Path], *, is_stdin: bool) -> Sequence[BlueprintText]:
    """Files of any bytes: one that is no text is a problem among the others."""
    from controlplane.cli import sources

    if is_stdin:
        path = files[0] if files else Path(STDIN)
        session.names[str(path.absolute())] = str(path)
        return [sources.of_bytes(path, sys.stdin.buffer.read(sources.MOST_BYTES + 1))]
    session.names.update({str(f.absolute()): str(f) for f in files})
    return sources.read(files, settings.blueprint_base())


def _with_typed_names(
    session: Session, problems: Iterable[Problem], texts: Sequence[BlueprintText]
) -> list[dict[str, Any]]:
    """Problems with the file names that were typed, and with the ends of their places."""
    from controlplane.services.editor.text_ranges import end_of

    texts_by_name = {
        name: text
        for blueprint in texts
        for name, text in [(blueprint.name, blueprint.text), *blueprint.files.items()]
    }
    shown = []
    for problem in problems:
        end_line, end_column = end_of(
            texts_by_name.get(problem.file, ""), problem.line, problem.column
        )
        named = asdict(replace(problem, file=session.names.get(problem.file, problem.file)))
        shown.append({**named, "end_line": end_line, "end_column": end_column})
    return shown


def _tried(
    session: Session, texts: Sequence[BlueprintText], home: Path | None
) -> list[ConnectionEntry]:
    """Connections as a worker of the service, or our own worker, tested them."""
    from controlplane.cli import sources

    with session.connect(home, "list") as client:
        return client.connections(sources.as_documents(texts))["items"]


def _checked(texts: Sequence[BlueprintText]) -> Checked:
    from controlplane.cli import sources

    try:
        return sources.validate(texts)
    except InvalidBlueprint as error:
        return Checked(problems=error.problems)


def plan(
    ctx: typer.Context,
    files: Annotated[
        list[Path] | None, typer.Argument(help="As if these blueprints were applied.")
    ] = None,
    home: options.Home = None,
    branch: options.Branch = "main",
    refresh: options.Refresh = True,
    spark: Annotated[
        bool,
        typer.Option("--spark/--no-spark", help="Have Spark tell the columns of what FILES edit."),
    ] = True,
    timeout: options.Timeout = options.LISTED_S,
    detailed: options.DetailedExit = False,
    modes: Annotated[
        bool,
        typer.Option("--modes", help="Also how inputs are kept, and what late partitions cost."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write the plan here, for `headgate apply`.")
    ] = None,
    output: options.As = options.OutputForm.table,
) -> None:
    """Show what would run, and why; of FILES, also what they change and break. Workers list the
    sources first, and Spark analyses the edited code; nothing is computed. Exits with 1 where
    something breaks."""
    from controlplane.cli import plan_files, sources

    session = options.session(ctx, output)
    texts = session.load(files or [])
    analyse = spark and bool(texts)
    with session.connect_to_list(home, timeout if refresh or analyse else None) as (
        client,
        timeout_s,
    ):
        documents = sources.as_documents(texts)
        refresh_s, analyse_s = (timeout_s if refresh else None), (timeout_s if analyse else None)
        if documents:
            applied = client.apply(
                documents,
                branch=branch,
                dry_run=True,
                refresh_s=refresh_s,
                analyse_s=analyse_s,
                modes=modes,
            )
            value = applied["plan"]
        else:
            value = client.plan(branch=branch, refresh_s=refresh_s, modes=modes)
    value = plan_views.with_names(value, session.names)
    with_texts = plan_files.with_blueprints(value, documents)
    if out is not None:
        plan_files.write(out, with_texts)
    if session.output == "md":
        sys.stdout.write(plan_views.comment(value))
    else:
        parts = [*plan_views.changes(value), *views.plan(value), *_mode_tables(value)]
        show(with_texts, parts, session.output)
    if value["breaks"]:
        raise typer.Exit(failures.ERROR)
    raise typer.Exit(_detailed_code(value) if detailed else 0)


def _mode_tables(value: PlanAnswer) -> View:
    if "modes" not in value:
        return []
    from controlplane.cli import mode_views

    return mode_views.mode_tables(value["modes"])


def _detailed_code(value: PlanAnswer) -> int:
    """That there is nothing to do is not known while a source could not be looked at, though it
    should."""
    if value["state"] == "work":
        return failures.CHANGES
    unknown = [
        source for source in value["sources"] if source["problem"] and not source["is_left_alone"]
    ]
    return failures.ERROR if unknown else 0


def status(
    ctx: typer.Context,
    target: options.Target = None,
    long: Annotated[
        bool, typer.Option("--long", "-l", help="Also what the last commits took, and what runs.")
    ] = False,
    shows_all: Annotated[
        bool, typer.Option("--all", help="Also datasets and exports that are fine.")
    ] = False,
    explain: options.Explain = False,
    home: options.Home = None,
    branch: options.Branch = "main",
    refresh: options.Refresh = False,
    timeout: options.Timeout = options.LISTED_S,
    detailed: options.DetailedExit = False,
    output: options.As = options.OutputForm.table,
) -> None:
    """Show the state of dataflows, and the datasets that are not fine. Exits with 1 where something
    failed or is blocked."""
    session = options.session(ctx, output)
    if refresh:
        with session.connect_to_list(home, timeout) as (client, timeout_s):
            value = client.status(target, branch=branch, long=long, refresh_s=timeout_s)
    else:
        with session.read(home) as reader:
            value = reader.status(target, branch=branch, long=long)
    times = work_views.times(value) if long else []
    is_whole = shows_all or long or target is not None
    parts = views.status(value, shows_all=is_whole)
    show(value, [*parts, *times, *words.states(value, explain)], session.output)
    if value["state"] in ("failed", "blocked"):
        raise typer.Exit(failures.ERROR)
    raise typer.Exit(
        failures.CHANGES if detailed and value["state"] in ("stale", "building") else 0
    )


@command
def why(
    target: options.PartitionAt,
    shows_all: Annotated[
        bool, typer.Option("--all", help="Also inputs that did not change.")
    ] = False,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Show why a dataset or partition is as it is: the cause, and the way down to the edit or the
    source object."""
    dataset, slash, partition = target.partition("/")
    return ask(
        lambda client: with_stored_key(
            lambda key: client.why(dataset, key, branch=branch, shows_all=shows_all),
            partition if slash else None,
        ),
        lambda value: why_views.why(value, shows_all=shows_all),
    )


@command
def checks(
    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATAFLOW.DATASET[@AT]]",
            help="All datasets by default. AT is a generation (12) or a time.",
            autocompletion=completion.datasets,
        ),
    ] = None,
    generation: Generation = None,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Show expectations of rows, and their results. Exits with 1 where rows were rejected."""
    if dataset is None:
        if generation is not None:
            raise typer.BadParameter("name its dataset", param_hint="--generation")
        return ask(
            lambda client: client.all_checks(branch=branch),
            views.all_checks,
            is_failure=lambda answer: any(checked["rejected"] for checked in answer["items"]),
        )
    name = dataset
    return ask(
        lambda client: client.checks(name, branch=branch, generation=generation),
        views.checks,
        is_failure=lambda value: bool(value["rejected"]),
    )


def preview(
    ctx: typer.Context,
    dataset: options.DatasetAt,
    limit: Limit = PREVIEWED,
    partition: Partition = None,
    generation: Generation = None,
    home: options.Home = None,
    branch: options.Branch = "main",
    output: options.As = options.OutputForm.table,
) -> None:
    """Show some records of a dataset."""
    session = options.session(ctx, output)
    with session.connect(home) as client:
        query: Any = {"branch": branch, "generation": generation, "limit": limit}

        def rows_of(key: str | None) -> list[dict[str, Any]]:
            with client.records(dataset, format="json", partition=key, **query) as parts:
                return _rows(b"".join(parts))

        rows = with_stored_key(rows_of, partition)
        columns = list(rows[0]) if rows else _columns(client, dataset, branch, generation)
    show(rows, views.records(rows, columns), session.output)


def _columns(client: Headgate, dataset: str, branch: str, generation: int | None) -> list[str]:
    """The columns of a generation without rows."""
    with client.records(
        dataset, format="csv", branch=branch, generation=generation, limit=0
    ) as parts:
        text = b"".join(parts).decode()
    return next(csv.reader(text.splitlines()), [])


def _rows(body: bytes) -> list[dict[str, Any]]:
    """Records are one JSON array, or one JSON object a line."""
    text = body.decode()
    if text.lstrip().startswith("["):
        rows: list[dict[str, Any]] = json.loads(text)
        return rows
    return [json.loads(line) for line in text.splitlines() if line]


@command
def history(
    dataset: options.DatasetAt,
    limit: Limit = PREVIEWED,
    branch: options.Branch = "main",
) -> ClientRequest:
    """Show the generations of a dataset, newest first, up to the one that is named."""
    return ask(lambda client: client.history(dataset, branch=branch, limit=limit), views.history)


COMMANDS: Commands = {
    "validate": validate,
    "plan": plan,
    "status": status,
    "why": why,
    "checks": checks,
    "preview": preview,
    "history": history,
}

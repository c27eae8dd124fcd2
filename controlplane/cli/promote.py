"""The command that proposes a transform for a query, and opens a transform as a query."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import failures, options, query
from controlplane.cli.command import Commands
from controlplane.cli.output import Lines, TextTable, View, problem_lines, show
from controlplane.cli.places import shown_file

if TYPE_CHECKING:
    from controlplane.core.model.answers.promotion import (
        PromotionAnalysis,
        PromotionAnswer,
        PromotionComparison,
    )
    from controlplane.core.model.json_values import JsonValue


def promote(
    ctx: typer.Context,
    sql: Annotated[
        str | None, typer.Argument(metavar="[SQL]", help="A SELECT; - reads standard input.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="DATAFLOW.DATASET", help="What the query is to make."),
    ] = None,
    of: Annotated[
        str | None,
        typer.Option(
            "--of", metavar="DATAFLOW.DATASET", help="Open this transform as a query instead."
        ),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Have Spark tell its columns.")
    ] = True,
    compare: Annotated[
        query.Engine | None,
        typer.Option(
            "--compare", help="Compare the query's rows by this engine with those that Spark gives."
        ),
    ] = None,
    timeout: options.Timeout = options.LISTED_S,
    home: options.Home = None,
    branch: options.Branch = "main",
    output: options.As = options.OutputForm.table,
) -> None:
    """Propose a blueprint with a query as a transform: its text, how each input is read, and its
    columns. Nothing is stored; look at it with `headgate plan`, and apply it. Exits with 1 where
    Spark refuses it, or has other rows."""
    session = options.session(ctx, output)
    if of is not None:
        if sql is not None or name is not None:
            raise typer.BadParameter("--of goes alone", param_hint="--of")
        with session.connect(home) as client:
            opened = client.query_of(of, branch=branch)
        show(opened, [Lines(tuple(opened["sql"].splitlines()))], session.output)
        return
    if sql is None or name is None:
        raise typer.BadParameter("give SQL and --as DATAFLOW.DATASET, or --of DATAFLOW.DATASET")
    with session.connect_to_list(home, timeout if spark else None) as (client, timeout_s):
        value = client.promote(
            sys.stdin.read() if sql == "-" else sql,
            name,
            branch=branch,
            analyse=timeout_s is not None,
            compare=None if compare is None else compare.value,
            timeout_s=timeout,
        )
    show(value, _view(value), session.output)
    if _is_wrong(value):
        raise typer.Exit(failures.ERROR)


def _is_wrong(value: PromotionAnswer) -> bool:
    analysis, comparison = value["analysis"], value["comparison"]
    is_refused = analysis is not None and bool(analysis["breaks"])
    return is_refused or (comparison is not None and comparison["equal"] is False)


def _view(value: PromotionAnswer) -> View:
    rows = tuple(
        (name, source["mode"], source["reason"]) for name, source in value["inputs"].items()
    )
    parts: list[Lines | TextTable] = [
        Lines(tuple(value["text"].splitlines())),
        TextTable(("input", "mode", "reason"), rows),
    ]
    if (analysis := value["analysis"]) is not None:
        parts += _analysis(analysis)
    if (comparison := value["comparison"]) is not None:
        parts += _comparison(comparison)
    return parts


def _analysis(analysis: PromotionAnalysis) -> View:
    columns = tuple((problem["name"], problem["type"]) for problem in analysis["columns"] or ())
    words = (
        [f"columns as {analysis['schema_from']} tells them: {analysis['schema_unknown']}"]
        if analysis["schema_unknown"]
        else []
    )
    breaks = [
        {**problem, "file": shown_file(problem["file"], {})} for problem in analysis["breaks"]
    ]
    return [Lines((*words, *problem_lines(breaks))), TextTable(("column", "type"), columns)]


def _comparison(comparison: PromotionComparison) -> View:
    engine = comparison["engine"]
    if comparison["equal"] is None:
        return [Lines((f"rows were not compared: {comparison['reason']}",))]
    if comparison["equal"]:
        return [Lines((f"the same {comparison['query_rows']} rows by {engine} and by Spark",))]
    words = [
        f"{engine} has {comparison['query_rows']} rows, Spark {comparison['transform_rows']};",
        f"{comparison['only_in_query']} of {engine} only, {comparison['only_in_transform']} of Spark only",
    ]
    samples = [
        *_sample(engine, comparison["samples_of_query"]),
        *_sample("spark", comparison["samples_of_transform"]),
    ]
    return [Lines((" ".join(words), *samples))]


def _sample(engine: str, rows: list[list[JsonValue]]) -> list[str]:
    return [f"  {engine}: {json.dumps(row, ensure_ascii=False)}" for row in rows]


COMMANDS: Commands = {"promote": promote}

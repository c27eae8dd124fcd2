"""The command that proposes a transform for a query, and opens a transform as a query."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import failures, options, query
from controlplane.cli.command import Commands
from controlplane.cli.output import Lines, Table, View, problem_lines, show
from controlplane.cli.places import shown_file

if TYPE_CHECKING:
    from controlplane.core.model.answers.promotion import PromotionAnalysis, PromotionAnswer, PromotionComparison
    from controlplane.core.model.json_values import JsonValue


def promote(
    ctx: typer.Context,
    sql: Annotated[str | None, typer.Argument(metavar="[SQL]", help="A SELECT; - reads standard input.")] = None,
    name: Annotated[
        str | None, typer.Option("--as", metavar="DATAFLOW.DATASET", help="What the query is to make.")
    ] = None,
    of: Annotated[
        str | None, typer.Option("--of", metavar="DATAFLOW.DATASET", help="Open this transform as a query instead.")
    ] = None,
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Have Spark tell its columns.")] = True,
    compare: Annotated[
        query.Engine | None,
        typer.Option("--compare", help="Compare the query's rows by this engine with those that Spark gives."),
    ] = None,
    timeout: options.Timeout = options.LISTED_S,
    home: options.Home = None,
    branch: options.Branch = "main",
    output: options.As = options.Form.table,
) -> None:
    """Propose a blueprint with a query as a transform: its text, how each input is read, and its columns. Nothing is
    stored; look at it with `headgate plan`, and apply it. Exits with 1 where Spark refuses it, or has other rows."""
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
    with session.looking(home, timeout if spark else None) as (client, timeout_s):
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
    rows = tuple((name, one["mode"], one["reason"]) for name, one in value["inputs"].items())
    told: list[Lines | Table] = [Lines(tuple(value["text"].splitlines())), Table("", ("input", "mode", "reason"), rows)]
    if (analysis := value["analysis"]) is not None:
        told += _analysis(analysis)
    if (comparison := value["comparison"]) is not None:
        told += _comparison(comparison)
    return told


def _analysis(found: PromotionAnalysis) -> View:
    columns = tuple((one["name"], one["type"]) for one in found["columns"] or ())
    words = (
        [f"columns as {found['schema_from']} tells them: {found['schema_unknown']}"] if found["schema_unknown"] else []
    )
    breaks = [{**one, "file": shown_file(one["file"], {})} for one in found["breaks"]]
    return [Lines((*words, *problem_lines(breaks))), Table("", ("column", "type"), columns)]


def _comparison(found: PromotionComparison) -> View:
    engine = found["engine"]
    if found["equal"] is None:
        return [Lines((f"rows were not compared: {found['reason']}",))]
    if found["equal"]:
        return [Lines((f"the same {found['query_rows']} rows by {engine} and by Spark",))]
    words = [
        f"{engine} has {found['query_rows']} rows, Spark {found['transform_rows']};",
        f"{found['only_in_query']} of {engine} only, {found['only_in_transform']} of Spark only",
    ]
    samples = [*_sample(engine, found["samples_of_query"]), *_sample("spark", found["samples_of_transform"])]
    return [Lines((" ".join(words), *samples))]


def _sample(engine: str, rows: list[list[JsonValue]]) -> list[str]:
    return [f"  {engine}: {json.dumps(row, ensure_ascii=False)}" for row in rows]


COMMANDS: Commands = {"promote": promote}

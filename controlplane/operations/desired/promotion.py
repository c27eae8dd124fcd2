"""A query as a proposed transform, and a transform as a query. Nothing is stored: applying is
`blueprints.apply`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.core import sql
from controlplane.core.blueprint import SqlTransform
from controlplane.core.errors import NotFound, Problem, QueryRefused
from controlplane.core.merging.adding import new_dataflow, sql_component, with_transform
from controlplane.core.model.answers.promotion import (
    OpenedAnswer,
    PromotionAnalysis,
    PromotionAnswer,
)
from controlplane.core.query_problems import FILE
from controlplane.core.review.column_diff import as_ddl
from controlplane.core.rights import may
from controlplane.core.sql.references import TableRef
from controlplane.operations.context import Context
from controlplane.operations.desired import compile_edit, drafts
from controlplane.operations.inspect import json_views, review_views
from controlplane.operations.planning import edit_review
from dataplane.contract.jobs import JobSparkSettings


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a query becomes. `settings`: of the Spark that would run it."""

    answer: PromotionAnswer
    sources: tuple[drafts.SentBlueprint, ...]
    settings: JobSparkSettings


def promote(ctx: Context, branch: str, text: str, dataset: str) -> PromotionAnswer:
    """`propose` without more."""
    return propose(ctx, branch, text, dataset).answer


def propose(ctx: Context, branch: str, text: str, dataset: str) -> Proposal:
    """The blueprint of `dataset`'s dataflow with the query as a transform of that name, as Spark
    would read it. Raises QueryRefused where no transform can be made of it, InvalidBlueprint where
    the edited dataflow has problems, and NotFound where the caller must not see all of the
    dataflow."""
    flow, _, name = dataset.partition(".")
    if not may(ctx.principal, "view", dataflow=flow):  # the answer has its whole text
        raise NotFound(
            f"there is no dataflow {flow} that you see whole; a query becomes a part of one that you do"
        )
    try:
        query = sql.analyse(text)
    except sql.SqlProblem as problem:
        raise _refused(
            problem.line, problem.column, problem.code, problem.message, problem.hint
        ) from problem
    names = {ref.name: _named(ref, text, flow, branch) for ref in query.references}
    for ref in query.references:
        _require_seen(ctx, ref, names[ref.name], flow)
    edited = _renamed(query, names)
    with ctx.read() as tx:
        stored = tx.blueprints.revisions(branch, [flow]).get(flow)
    proposed = (
        new_dataflow(flow, name, edited)
        if stored is None
        else with_transform(stored.text, name, edited)
    )
    if proposed is None:
        hint = f"add it by hand:\n{sql_component(name, edited)}"
        raise _refused(
            0, 0, "query-refused", f"components of {flow} do not each begin a line", hint
        )
    file, files = (f"/{flow}.yaml", {}) if stored is None else (stored.file, dict(stored.files))
    sources = (drafts.SentBlueprint(file, proposed, files),)
    draft_set = drafts.DraftSet.of(sources)
    with ctx.read() as tx:
        edit = compile_edit.edit_of(ctx, tx, branch, draft_set)
    node = edit.proposed.nodes[dataset]
    assert node.is_transform
    answer: PromotionAnswer = {
        "dataset": dataset,
        "file": file,
        "revision": 0 if stored is None else stored.number,
        "component": sql_component(name, edited),
        "text": proposed,
        "inputs": json_views.modes(ctx, node),
        "analysis": None,
        "comparison": None,
    }
    return Proposal(answer, sources, node.spark)


def analysis(ctx: Context, branch: str, proposal: Proposal, unanswered: str) -> PromotionAnalysis:
    """Columns that the transform would have, and the breaks that it would cause, as far as Spark
    has answered. `unanswered`: why answers of Spark are missing."""
    dataset, draft_set = proposal.answer["dataset"], drafts.DraftSet.of(proposal.sources)
    with ctx.read() as tx:
        edit = compile_edit.edit_of(ctx, tx, branch, draft_set, is_look=True)
        columns_after = edit_review.columns_of(
            tx, branch, edit.before, edit.proposed, dataset, unanswered
        )
        changes = edit_review.of_edit(tx, branch, edit.before, edit.proposed, unanswered).changes
    columns = None if columns_after.schema is None else as_ddl(columns_after.schema)
    return {
        "columns": None
        if columns is None
        else [{"name": name, "type": kind} for name, kind in columns.items()],
        "schema_from": columns_after.origin,
        "schema_unknown": columns_after.why or None,
        "breaks": [
            broken for change in changes for broken in review_views.change(ctx, change)["breaks"]
        ],
    }


def _named(ref: TableRef, text: str, flow: str, branch: str) -> str:
    """The name of a query's table in a transform of that dataflow. Raises QueryRefused."""
    parts = [part.lower() for part in ref.parts]
    if len(parts) == 3 and parts[0] == branch:
        parts = parts[1:]
    if "@" in parts[-1] or text[ref.end :].startswith("@"):
        message = f"{ref.name} is one state; a transform reads what its inputs are at any time: leave out the @"
        raise _refused(ref.line, ref.column, "query-refused", message)
    if len(parts) != 2:
        message = f"{ref.name} is no dataset of branch {branch}; a transform reads datasets of its own branch"
        raise _refused(ref.line, ref.column, "query-refused", message)
    return parts[1] if parts[0] == flow else ".".join(parts)


def _require_seen(ctx: Context, ref: TableRef, name: str, flow: str) -> None:
    """Refuse hidden and missing datasets alike: a query that compiles would reveal that a dataset
    exists, and its columns."""
    dataset = name if "." in name else f"{flow}.{name}"
    if not ctx.sees(dataset):
        raise _refused(
            ref.line, ref.column, "unknown-table", f"there is no dataset {dataset} that you see"
        )


def _refused(line: int, column: int, code: str, message: str, hint: str = "") -> QueryRefused:
    return QueryRefused(Problem(FILE if line else "", line, column, code, message, hint))


def opened(ctx: Context, branch: str, dataset: str) -> OpenedAnswer:
    """A transform's SQL with its inputs by their full names. Raises NotFound, and QueryRefused
    where it is no SQL."""
    with ctx.read_plan(branch, [dataset.partition(".")[0]]) as (_, facts):
        node = facts.desired.nodes.get(dataset)
    # The text names others
    if node is None or not may(ctx.principal, "view", dataflow=dataset.partition(".")[0]):
        raise NotFound(f"there is no dataset {dataset} in branch {branch}")
    if node.query is None:
        raise _refused(
            0,
            0,
            "query-refused",
            f"{dataset} is not made by SQL, so it cannot be opened as a query",
        )
    body = node.component.body
    assert isinstance(body, SqlTransform)  # which a query was made of
    return {
        "dataset": dataset,
        "sql": _renamed(node.query, {slot.name: slot.dataset for slot in node.slots}),
        "parameters": dict(body.params),
    }


def _renamed(query: sql.AnalysedQuery, names: Mapping[str, str]) -> str:
    """The text with other names for its tables, without aliases that say the end of the name once
    more."""
    plain = {f" AS {name.rpartition('.')[2]}" for name in names.values()}
    edits = [
        edit
        for edit in query.rename_edits(names)
        if edit.start < edit.end or edit.text not in plain
    ]
    return sql.apply_edits(query.text, edits)

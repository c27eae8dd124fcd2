"""The names that must be hidden from an actor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar, cast

from controlplane.core.model.answers.problems import ProblemDetail
from controlplane.core.model.branches import MAIN
from controlplane.core.model.json_values import JsonObject, JsonValue
from controlplane.core.name_redaction import NameRedaction
from controlplane.core.rights import may, may_see_part
from controlplane.operations.context import Context
from controlplane.operations.planning.snapshot import desired
from controlplane.ports.store import Tx

T = TypeVar("T")


def name_redaction_of(ctx: Context, branches: Iterable[str] = ()) -> NameRedaction:
    """For answers to the actor about main and these branches, as far as they are there."""
    who = ctx.principal
    with ctx.read() as tx:
        there = sorted(tx.branches.all())
        names = _names(
            tx, {MAIN, *(branch for branch in branches if branch in there)}, ctx.namespace
        )
    flows = {name.partition(".")[0] for name in names}
    unseen = frozenset(flow for flow in flows if not may_see_part(who, flow))
    datasets = (name for name in names if "." in name and name.partition(".")[0] not in unseen)
    return NameRedaction(
        who,
        dataflows=unseen,
        datasets=frozenset(name for name in datasets if not may(who, "view", dataset=name)),
        branches=frozenset(name for name in there if not may(who, "view", branch=name)),
    )


def _names(tx: Tx, branches: Iterable[str], namespace: str) -> set[str]:
    """The names of dataflows and of their components."""
    hidden_names = set[str]()
    for branch in branches:
        hidden_names |= {
            *tx.blueprints.revisions(branch),
            *desired(tx, branch, namespace=namespace).nodes,
        }
    return hidden_names


def names_redacted(ctx: Context, branches: Iterable[str]) -> Context:
    """The context with redaction for answers about these branches, if the actor must not see all
    names."""
    return (
        replace(ctx, name_redaction=name_redaction_of(ctx, branches))
        if ctx.principal.within
        else ctx
    )


def visible(ctx: Context, answer: T) -> T:
    """The answer in words that the actor may see."""
    if ctx.name_redaction is None:
        return answer
    return cast("T", ctx.name_redaction.over(cast("JsonValue", answer)))


def problem(ctx: Context, detail: ProblemDetail, sent: str) -> ProblemDetail:
    """In words that the actor may see. `sent`: the text that it is a problem of, whose names the
    actor knows."""
    if ctx.name_redaction is None:
        return detail
    return cast("ProblemDetail", ctx.name_redaction.over(cast("JsonObject", detail), sent))


def words(ctx: Context, text: str, sent: str = "") -> str:
    """A text without hidden names, but those that were sent."""
    return text if ctx.name_redaction is None else ctx.name_redaction.words(text, sent)

"""What a plan reaches: the components around its work, and who notices it.

A plan names the work of its dataflows. Readers in other dataflows, owners, feeds and exports follow
from the graph of all components. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from typing_extensions import TypedDict

from controlplane.core.compile.nodes import Desired
from controlplane.core.model.answers import PlanAnswer
from controlplane.core.model.answers.components import (
    ComponentEdge,
    ComponentEntry,
    ComponentsAnswer,
)
from controlplane.core.model.branches import MAIN
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints
from controlplane.operations.desired.drafts import SentBlueprint
from controlplane.operations.inspect.components import BranchComponents


class AffectedFeed(TypedDict):
    """A feed that offers an affected dataset."""

    name: str
    dataset: str


class PlanReach(TypedDict):
    """`components`: of the plan's dataflows, those that an edit removes among them. `lines`: where
    the blueprint declares them, by name. `affected`: datasets and exports with work or an edit, and
    all that read them, in any dataflow; `owners` of them, and `feeds` that offer them."""

    components: ComponentsAnswer
    lines: dict[str, int]
    affected: list[ComponentEntry]
    owners: dict[str, list[str]]
    feeds: list[AffectedFeed]


def of_stored(ctx: Context, branch: str, plan: PlanAnswer) -> PlanReach:
    """The reach of a plan of the stored blueprints."""
    with ctx.read_plan(branch) as (_, facts):
        return _reach(ctx, branch, plan, facts.desired, facts.desired)


def of_edit(ctx: Context, branch: str, plan: PlanAnswer, source: SentBlueprint) -> PlanReach:
    """The reach of a plan of this blueprint. Raises InvalidBlueprint."""
    edit = blueprints.preview(ctx, branch, [source])
    return _reach(ctx, branch, plan, edit.before, edit.proposed)


def _reach(
    ctx: Context, branch: str, plan: PlanAnswer, before: Desired, after: Desired
) -> PlanReach:
    changed = {change["component"] for change in plan["changes"]}
    touched = changed | {work["dataset"] for work in plan["items"]}
    flows = {name.partition(".")[0] for name in touched} | _dataflows(plan)
    names = touched | set(after.graph.downstream(touched)) | set(before.graph.downstream(changed))
    present, past = BranchComponents(after, ctx.principal), BranchComponents(before, ctx.principal)
    removed = [component for component in past.entries() if component["name"] not in after.nodes]
    affected = [
        component for component in (*present.entries(), *removed) if component["name"] in names
    ]
    components = _together(
        [view.of_flow(flow) for flow in sorted(flows) for view in (present, past)]
    )
    return {
        "components": components,
        "lines": _lines(after, components["items"]),
        "affected": affected,
        "owners": _by_owner(affected),
        "feeds": _feeds(ctx, branch, {component["name"] for component in affected}),
    }


def _dataflows(plan: PlanAnswer) -> set[str]:
    """The dataflows that the plan is limited to; none where it is of all."""
    basis = plan.get("basis")
    return set(basis["dataflows"]) if basis else set()


def _together(answers: Iterable[ComponentsAnswer]) -> ComponentsAnswer:
    """Each component and each edge once, as the first answer has it."""
    items: dict[str, ComponentEntry] = {}
    edges: dict[tuple[str, str], ComponentEdge] = {}
    for answer in answers:
        for component in answer["items"]:
            items.setdefault(component["name"], component)
        for edge in answer["edges"]:
            edges.setdefault((edge["source"], edge["target"]), edge)
    return {"items": list(items.values()), "edges": list(edges.values())}


def _lines(desired: Desired, components: Iterable[ComponentEntry]) -> dict[str, int]:
    names = [component["name"] for component in components if component["name"] in desired.nodes]
    return {name: desired.nodes[name].component.place.line for name in names}


def _by_owner(components: Iterable[ComponentEntry]) -> dict[str, list[str]]:
    owned: dict[str, list[str]] = {}
    for component in components:
        if component["owner"]:
            owned.setdefault(component["owner"], []).append(component["name"])
    return owned


def _feeds(ctx: Context, branch: str, names: Collection[str]) -> list[AffectedFeed]:
    """Branches offer nothing."""
    if branch != MAIN:
        return []
    with ctx.read() as tx:
        offered = sorted((feed.name, feed.dataset) for feed in tx.feeds.all())
    return [{"name": name, "dataset": dataset} for name, dataset in offered if dataset in names]

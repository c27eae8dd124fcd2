"""Blueprints as they were sent, compiled once; then the result answers questions.

Two results: `compile_texts` compiles a set without a store (a `Compilation`: desired nodes, and
every problem). `edit_of` compiles a set over the live dataflows of a branch (a `CompiledEdit`). An
edit says, for example, which sources it reads (`sources`), what it needs from Spark (`analyses`),
what would run (`answer`), and what such a plan rests on (`basis`).
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from controlplane.core.blueprint import Draft
from controlplane.core.compile import nodes
from controlplane.core.compile.compiler import Compilation
from controlplane.core.compile.nodes import Desired
from controlplane.core.errors import Problem
from controlplane.core.examples.example_faults import problems as problems_of_tests
from controlplane.core.merging import identities
from controlplane.core.merging.spans import definitions
from controlplane.core.model.answers import ApplyAnswer, DataflowAnswer, PlanBasis
from controlplane.core.model.branches import MAIN
from controlplane.core.model.revisions import NEWEST_EDITION, Revision, in_edition
from controlplane.core.plan import Plan
from controlplane.core.review import AnalyseRequest
from controlplane.operations.context import Context
from controlplane.operations.desired import feeds, permits
from controlplane.operations.desired.drafts import DraftSet, SentBlueprint
from controlplane.operations.inspect import json_views, plan_basis, source_changes
from controlplane.operations.planning import edit_review, plan_listings
from controlplane.operations.planning.plan_listings import PlanListings
from controlplane.operations.planning.snapshot import StoreSnapshot, attempt_cached, compile_live
from controlplane.operations.work import listings
from controlplane.ports.store import Tx

RESERVED_FLOW: Final = "system"
NO_UIDS: Mapping[str, Mapping[str, str]] = MappingProxyType({})


def compile_texts(
    sources: Sequence[SentBlueprint], stored: Iterable[DataflowAnswer] = ()
) -> Compilation:
    """Compile blueprints without a store, beside the `stored` dataflows that they do not replace.
    One of these that does not compile is left out."""
    draft_set = DraftSet.of(sources)
    live = {answer["name"]: _answered(answer) for answer in stored}
    edited = {revision.dataflow: revision for revision in draft_set.revisions}
    return _attempt(live, {**live, **edited}, "default", draft_set)


def compile_with_tests(sources: Sequence[SentBlueprint]) -> Compilation:
    """As `compile_texts`, with the problems of tests: those of all components that are sound
    otherwise."""
    attempt = compile_texts(sources)
    problems = {*attempt.problems, *problems_of_tests(attempt.desired)}
    return replace(attempt, problems=tuple(sorted(problems)))


def _answered(answer: DataflowAnswer) -> Revision:
    source = SentBlueprint(answer["file"], answer["text"], answer["files"])
    return source.revision(answer["name"], answer["branch"], answer["revision"])


def _attempt(
    live: Mapping[str, Revision],
    together: Mapping[str, Revision],
    namespace: str,
    draft_set: DraftSet,
) -> Compilation:
    """The desired state after an edit. A stored dataflow that does not compile is no problem of the
    edit, unless the edit reads it."""
    reserved = tuple(_reserved(live, draft_set))
    attempt = _compiled(live, together, namespace, draft_set)
    return replace(attempt, problems=(*reserved, *attempt.problems)) if reserved else attempt


def _reserved(live: Mapping[str, Revision], draft_set: DraftSet) -> Iterator[Problem]:
    """The problem of a new dataflow with the name of the service's views. A stored one keeps its name."""
    for draft in draft_set.drafts:
        if draft.dataflow == RESERVED_FLOW and RESERVED_FLOW not in live:
            message = f"the dataflow name {RESERVED_FLOW} is reserved for views such as system.cost"
            yield draft.place.problem("invalid-name", message, "choose another name")


def _compiled(
    live: Mapping[str, Revision],
    together: Mapping[str, Revision],
    namespace: str,
    draft_set: DraftSet,
) -> Compilation:
    parsed = draft_set.by_flow
    attempt = attempt_cached(together.values(), namespace, parsed)
    if not attempt.problems:
        return attempt
    broken = compile_live(live.values(), namespace).left_out.keys() - parsed.keys()
    if not broken:
        return attempt
    sound = [revision for name, revision in together.items() if name not in broken]
    return attempt_cached(sound, namespace, parsed)


# --- over the live dataflows ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CompiledEdit:
    """New revisions of some dataflows, and the desired state with them, compiled over the live one.
    `texts`: the blueprints as they were sent."""

    branch: str
    live: Mapping[str, Revision]
    revisions: list[Revision]
    before: Desired
    proposed: Desired
    texts: Sequence[SentBlueprint] = ()

    @property
    def flows(self) -> list[str]:
        return [revision.dataflow for revision in self.revisions]

    @property
    def own_sources(self) -> list[nodes.Source]:
        """Sources that its dataflows and their upstream read."""
        return self.sources(self.flows)

    def sources(self, flows: Sequence[str]) -> list[nodes.Source]:
        """As `own_sources`, of these dataflows; of all where none is named."""
        return listings.sources(
            self.proposed, self.proposed.scope(flows) if flows else self.proposed.order
        )

    def looked(self, tx: Tx, plan: str) -> PlanListings:
        """The listings of a plan of this edit."""
        return plan_listings.of_plan(tx, plan, self.own_sources)

    def analyses(self, tx: Tx, plan: str) -> tuple[AnalyseRequest, ...]:
        """Column analyses that it needs from Spark, as far as the columns of its inputs are
        known."""
        return edit_review.of_edit(
            tx, self.branch, self.before, self.proposed, looked=self.looked(tx, plan)
        ).requests

    def answer(
        self,
        ctx: Context,
        plan: Plan,
        facts: StoreSnapshot,
        unseen: Mapping[str, str],
        unanswered: str = "",
    ) -> ApplyAnswer:
        """Its revisions, and the plan of its work. `unseen`, `unanswered`: see
        `blueprints.apply`."""
        numbers = {revision.dataflow: revision.number for revision in self.revisions}
        sources = source_changes.of_plan(ctx, plan, facts, unseen)
        review = edit_review.of_edit(
            facts.tx, self.branch, self.before, self.proposed, unanswered, facts.looked
        )
        return {
            "revisions": numbers,
            "plan": json_views.plan(ctx, self.branch, plan, facts, sources, review),
        }

    def basis(
        self, ctx: Context, flows: Sequence[str], plan: Plan, facts: StoreSnapshot, looked: str = ""
    ) -> PlanBasis:
        """What a plan of these dataflows rests on."""
        texts = [
            {"name": text.name, "text": text.text, "files": dict(text.files)} for text in self.texts
        ]
        return plan_basis.of_plan(ctx, plan, facts, self.live, flows, texts=texts, looked=looked)


def edit_of(
    ctx: Context,
    tx: Tx,
    branch: str,
    draft_set: DraftSet,
    *,
    uids: Mapping[str, Mapping[str, str]] = NO_UIDS,
    without: Collection[str] = (),
    is_look: bool = False,
) -> CompiledEdit:
    """Reads and compiles, so that the transaction that writes need not. Raises InvalidBlueprint.

    `uids`: those that components bring along, by dataflow. `without`: dataflows that end with the
    edit. `is_look`: it is not stored, and compiled several times, so new components get the same
    uids each time.
    """
    live = tx.blueprints.revisions(branch)
    permits.check(ctx, branch, draft_set, live)
    revisions = draft_set.revisions
    if not any(draft.problems for draft in draft_set.drafts):
        revisions = [
            _next(
                ctx,
                tx,
                branch,
                draft,
                source,
                live,
                brought=uids.get(draft.dataflow, {}),
                is_look=is_look,
            )
            for draft, source in draft_set.pairs
        ]
    left = {name: revision for name, revision in live.items() if name not in without}
    together = {**left, **{revision.dataflow: revision for revision in revisions}}
    proposed = _attempt(live, together, ctx.namespace, draft_set).require()
    before = compile_live(live.values(), ctx.namespace)
    if branch == MAIN:
        files = {flow: revision.file for flow, revision in live.items()}
        feeds.require_kept(tx, before.nodes, proposed.nodes, files)
    return CompiledEdit(branch, live, revisions, before, proposed, draft_set.sources)


def edit_over(
    ctx: Context, branch: str, live: Mapping[str, Revision], revisions: list[Revision]
) -> CompiledEdit:
    """An edit by revisions that are made already, of texts that compile."""
    together = {**live, **{r.dataflow: r for r in revisions}}
    before, proposed = (compile_live(some.values(), ctx.namespace) for some in (live, together))
    return CompiledEdit(branch, live, revisions, before, proposed)


def _next(
    ctx: Context,
    tx: Tx,
    branch: str,
    draft: Draft,
    source: SentBlueprint,
    live: Mapping[str, Revision],
    brought: Mapping[str, str],
    *,
    is_look: bool,
) -> Revision:
    """The revision that this text would be: the live one if nothing differs. `brought`: uids that
    components have."""
    before = live.get(draft.dataflow)
    is_same = before and (before.text, before.files, before.file) == (
        source.text,
        dict(source.files),
        source.name,
    )
    if before and is_same and not identities.is_raised(before.uids, brought):
        return before
    names = [component.name for component in draft.blueprint.components] if draft.blueprint else []
    uids = identities.assigned(
        names,
        before.uids if before else {},
        tx.blueprints.uids(branch, draft.dataflow),
        renames=_renames(before, source, names),
        brought=brought,
        new=_foreseen(branch, draft.dataflow)
        if is_look
        else lambda: in_edition(uuid.uuid4().hex, NEWEST_EDITION),
    )
    number = tx.blueprints.last_number(branch, draft.dataflow) + 1
    next_one = source.revision(draft.dataflow, branch, number)
    return replace(next_one, uids=uids, actor=ctx.actor, request_id=ctx.request_id, at=tx.now())


def _renames(before: Revision | None, source: SentBlueprint, names: list[str]) -> dict[str, str]:
    """New names of components to old ones. Texts are read again only for a new name."""
    if before is None or before.uids.keys() >= set(names):
        return {}
    return identities.renames(
        definitions(before.text, before.files), definitions(source.text, source.files)
    )


def _foreseen(branch: str, dataflow: str) -> Callable[[], str]:
    """Uids of nothing that is stored."""
    numbers = itertools.count()
    text = f"{branch}/{dataflow}"
    return lambda: in_edition(
        uuid.uuid5(uuid.NAMESPACE_OID, f"{text}/{next(numbers)}").hex, NEWEST_EDITION
    )

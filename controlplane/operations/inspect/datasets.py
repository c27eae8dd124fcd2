"""One dataset: its state, partitions, generations and checks. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import cast

from controlplane.core import tree
from controlplane.core.compile.compiled_checks import record_key
from controlplane.core.model.addresses import Moment, Point
from controlplane.core.model.answers import (
    ChecksAnswer,
    DatasetAnswer,
    GenerationEntry,
    HistoryAnswer,
    PartitionEntry,
    PartitionsAnswer,
    SparkSchema,
    TargetStatus,
)
from controlplane.core.model.answers.datasets import MeasuredGeneration
from controlplane.core.model.check_results import CheckResult
from controlplane.core.model.memos import Memo, results_in
from controlplane.core.model.states import State
from controlplane.core.plan import Decision, Plan
from controlplane.operations.context import Context
from controlplane.operations.desired import branches
from controlplane.operations.explore.change_counts import MOST_READS, ChangeCounting
from controlplane.operations.explore.counted import CountedNodes
from controlplane.operations.explore.graph import description_of
from controlplane.operations.inspect import data_age, generations, json_views, source_lag, work
from controlplane.operations.inspect.overview import add_feeds, as_known, offers_of
from controlplane.operations.inspect.time_travel import no_dataset, state_of
from controlplane.operations.projections.seen_tables import SeenTables
from controlplane.operations.upkeep import roll_up
from controlplane.ports.store import Tx

STATES_A_TIME = 50
MINUTE_S = 60.0
FIRST_PARTITIONS = 1_000  # that are looked at for first rows: most have some


def one_of(ctx: Context, plan: Plan, branch: str, name: str) -> Decision:
    """Raises NotFound, with the nearest name that the actor sees."""
    decision = plan.of(name)
    if decision is None:
        raise no_dataset(branch, name, (d.dataset for d in plan.decisions if ctx.sees(d.dataset)))
    return decision


def dataset(ctx: Context, branch: str, name: str) -> DatasetAnswer | TargetStatus:
    """State, schema, generation, totals and table of one dataset."""
    with ctx.read_plan(branch) as (plan, facts):
        tx, decision = facts.tx, one_of(ctx, plan, branch, name)
        (decision,) = as_known(ctx, tx, facts, [decision])
        node, state = facts.desired.nodes[name], facts.state(name)
        if node.is_copy:
            return json_views.target(decision, facts.target(name), node)
        published = SeenTables.of_branch(tx, branch, [name]).of(state)
        answer = json_views.dataset(decision, state, published, ctx.lake, ctx.namespace, node)
        if (held := facts.holds().get(name)) is not None:
            answer["hold"] = json_views.hold(held)
        if (fresh := data_age.of_dataset(tx, branch, node, facts.desired, state)) is not None:
            answer["freshness"] = fresh
        add_feeds(answer, node, state, offers_of(facts))
        if (own := branches.own_datasets(tx, branch)) is not None:
            answer["own"] = name in own
        shown: DatasetAnswer = {
            **answer,
            "namespace": ctx.namespace,
            "schema": cast("SparkSchema", state.schema) if state else None,
            "description": description_of(node),
            "logic": node.logic.hex(),
            "modes": json_views.modes(ctx, node),
            "volatile": json_views.volatile(node),
        }
        lags = source_lag.of_sources(facts, [node]) if node.is_source else {}
        if name in lags:
            shown["lag"] = lags[name]
            shown["rows_last_minute"] = _new_rows(tx, branch, state)
            assert node.is_source
            shown["roll_up"] = roll_up.sentence(tx, ctx.namespace, node, ctx.sees)
        return shown


def _new_rows(tx: Tx, branch: str, state: State | None) -> int:
    """How many rows more a dataset has than a minute ago."""
    if state is None:
        return 0
    earlier = tx.states.find(branch, state.dataset, Moment.of(tx.now() - MINUTE_S))
    return state.rows - (0 if earlier is None else earlier.rows)


def kept_states(tx: Tx, branch: str, name: str, before: int | None = None) -> Iterator[State]:
    """All states that are kept of a dataset, newest first; those below the number `before`."""
    while some := tx.states.history(branch, name, STATES_A_TIME, before):
        yield from some
        before = some[-1].seq


def newest_generations(tx: Tx, branch: str, name: str, most: int) -> list[State]:
    """The newest state of each of the last generations, the last one first."""
    by_generation: dict[int, State] = {}
    for state in islice(kept_states(tx, branch, name), 5 * most):
        by_generation.setdefault(state.generation, state)
    return list(by_generation.values())[:most]


def partitions(
    ctx: Context,
    branch: str,
    name: str,
    *,
    after: str | None,
    limit: int,
    point: Point | None = None,
    prefix: str = "",
) -> PartitionsAnswer:
    """A page of the committed partitions of one generation, in key order; `next` is the key to go
    on after. `prefix`: those whose keys begin so."""
    with ctx.read() as tx:
        state = state_of(tx, branch, name, point, sees=ctx.sees)
        entries = []
        for entry in tree.scan(tx.nodes, state.root, start=after or "", prefix=prefix):
            if entry.key != after:
                entries.append(entry)
            if len(entries) > limit:
                break
        fragments = tx.traces.fragments([e.fragment for e in entries])
        items: list[PartitionEntry] = [
            {
                "partition": e.key,
                "rows": e.content.rows,
                "fragment": e.fragment.hex(),
                "bytes": sum(f["size"] for f in fragments[e.fragment].files)
                if e.fragment in fragments
                else None,
            }
            for e in entries[:limit]
        ]
    following = items[-1]["partition"] if len(entries) > limit else None
    return {"generation": state.generation, "items": items, "next": following}


def history(
    ctx: Context,
    branch: str,
    name: str,
    *,
    before: int | None,
    limit: int,
    point: Point | None = None,
    most_reads: int = MOST_READS,
) -> HistoryAnswer:
    """Generations, newest first; states that changed nothing that readers see are left out. `next`:
    to go on before. `point`: those up to it. `most_reads`: tree nodes that changes are counted
    from."""
    with ctx.read_plan(branch) as (plan, facts):
        if point is not None:
            newest = state_of(facts.tx, branch, name, point).seq
            before = newest + 1 if before is None else min(before, newest + 1)
        states, is_all = _some_generations(facts.tx, branch, name, before, limit * 4 + 1)
        if not states:
            one_of(ctx, plan, branch, name)
        firsts = _first_states(states, is_all=is_all)
        shown = firsts[:limit]
        took = work.of_states(facts.tx, branch, name, shown, states)
        # Neighbours have roots in common: planning keeps them
        counting = ChangeCounting(CountedNodes(facts.nodes), most_reads)
        of_past = generations.EarlierStates.of(
            facts.tx, counting, branch, name, states, is_all=is_all
        )
        accounts = {s.seq: of_past.account_of(s) for s in shown}
    items: list[GenerationEntry] = [
        {
            "generation": s.generation,
            "at": json_views.instant(s.at),
            "cause": s.cause,
            "revision": s.revision,
            "partitions": s.partitions,
            "rows": s.rows,
            "root": s.root.hex(),
            "same_as": accounts[s.seq].same_as,
            "changes": accounts[s.seq].changes,
            "actor": accounts[s.seq].actor,
            "work": took[s.seq],
        }
        for s in shown
    ]
    return {"items": items, "next": None if is_all and len(firsts) <= limit else shown[-1].seq}


def measured_generations(tx: Tx, branch: str, name: str, limit: int) -> list[MeasuredGeneration]:
    """The newest generations as `history` lists them, with what trends measure alone."""
    states, is_all = _some_generations(tx, branch, name, None, limit * 4 + 1)
    shown = _first_states(states, is_all=is_all)[:limit]
    took = work.of_states(tx, branch, name, shown, states)
    return [
        {
            "generation": state.generation,
            "at": json_views.instant(state.at),
            "rows": state.rows,
            "work": took[state.seq],
        }
        for state in shown
    ]


def _first_states(states: Sequence[State], *, is_all: bool) -> list[State]:
    """The oldest state of each generation, newest first. The last generation may go on behind the
    states, unless they are all."""
    firsts = {state.generation: state for state in states}
    if not is_all:
        del firsts[states[-1].generation]
    return list(firsts.values())


def _some_generations(
    tx: Tx, branch: str, name: str, before: int | None, window: int
) -> tuple[list[State], bool]:
    """States, newest first, with all of one generation among them; and whether they are all that
    there are."""
    states: list[State] = []
    while not states or states[0].generation == states[-1].generation:
        some = tx.states.history(branch, name, window, before)
        states += some
        if len(some) < window:
            return states, True
        before = some[-1].seq
    return states, False


def checks(ctx: Context, branch: str, name: str, point: Point | None = None) -> ChecksAnswer:
    """The expectations of a dataset, and the results of a generation (the newest by default).
    `rejected`: results for rows that were not committed, because an expectation failed."""
    with ctx.read_plan(branch) as (plan, facts):
        tx, decision = facts.tx, one_of(ctx, plan, branch, name)
        state = facts.state(name) if point is None else state_of(tx, branch, name, point)
        key = _record_key(branch, name, state)
        memos = tx.traces.memos([key])
    answer = _checks(decision, state, memos.get(key))
    return answer if point is None else {**answer, "rejected": []}


def all_checks(ctx: Context, branch: str) -> list[ChecksAnswer]:
    """As `checks`, for the newest generation of each visible dataset that has checks or rejected
    rows, in order of names."""
    with ctx.read_plan(branch) as (plan, facts):
        visible = [d for d in plan.decisions if ctx.sees(d.dataset)]
        states = {d.dataset: facts.state(d.dataset) for d in visible}
        keys = {name: _record_key(branch, name, state) for name, state in states.items()}
        memos = facts.tx.traces.memos(keys.values())
    decisions = sorted(visible, key=lambda d: d.dataset)
    every = [_checks(d, states[d.dataset], memos.get(keys[d.dataset])) for d in decisions]
    return [answer for answer in every if answer["items"] or answer["rejected"]]


def without_rows(answer: ChecksAnswer) -> ChecksAnswer:
    """For those who may not see rows."""
    items, rejected = (
        [CheckResult({**check, "examples": []}) for check in checks]
        for checks in (answer["items"], answer["rejected"])
    )
    return {**answer, "items": items, "rejected": rejected}


def _record_key(branch: str, name: str, state: State | None) -> bytes:
    return record_key(state.branch if state else branch, name, state.generation if state else 0)


def _checks(decision: Decision, state: State | None, memo: Memo | None) -> ChecksAnswer:
    record = {} if memo is None else results_in(memo)
    is_rejected = decision.status == "failed" and bool(decision.checks)
    return {
        "dataset": decision.dataset,
        "state": decision.status,
        "generation": state.generation if state else 0,
        "items": [record[n] for n in sorted(record)],
        "rejected": list(decision.checks) if is_rejected else [],
    }

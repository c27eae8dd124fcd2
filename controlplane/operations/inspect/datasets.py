"""One dataset: its state, partitions, generations, checks and records. Changes nothing.

Does not belong here: why it is as it is (`causes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from controlplane.core import tree
from controlplane.core.compile.checks import record_key
from controlplane.core.compile.nodes import Sink
from controlplane.core.errors import NotFound
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
from controlplane.core.model.memos import results_in
from controlplane.core.model.states import State
from controlplane.core.plan import Decision, Plan
from controlplane.operations.context import Context
from controlplane.operations.inspect import freshness, views, work
from controlplane.operations.inspect.overview import as_known
from controlplane.ports.store import Tx
from dataplane.contract.schemas import Schema

STATES_A_TIME = 50


@dataclass(frozen=True, slots=True)
class Records:
    """Committed files of one generation, relative to the lake, in key order."""

    schema: Schema
    files: tuple[str, ...]
    rows: int
    generation: int


def one_of(plan: Plan, branch: str, name: str) -> Decision:
    decision = plan.of(name)
    if decision is None:
        raise NotFound(f"there is no dataset {name} in branch {branch}")
    return decision


def dataset(ctx: Context, branch: str, name: str) -> DatasetAnswer | TargetStatus:
    """State, schema, generation, totals and table of one dataset."""
    with ctx.looking(branch) as (plan, facts):
        tx, decision = facts.tx, one_of(plan, branch, name)
        (decision,) = as_known(ctx, tx, facts, [decision])
        node, state = facts.desired.nodes[name], facts.state(name)
        if isinstance(node, Sink):
            return views.target(decision, facts.target(name), node)
        published = tx.publications(branch, [name]).get(name)
        found = views.dataset(decision, state, published, ctx.lake, ctx.namespace, node)
        if (held := facts.holds().get(name)) is not None:
            found["hold"] = views.hold(held)
        if (fresh := freshness.of_dataset(tx, branch, node, facts.desired, state)) is not None:
            found["freshness"] = fresh
        return {
            **found,
            "schema": cast("SparkSchema", state.schema) if state else None,
            "description": node.component.description,
            "logic": node.logic.hex(),
            "modes": views.modes(node),
            "volatile": views.volatile(node),
        }


def state_of(tx: Tx, branch: str, name: str, generation: int | None = None) -> State:
    if generation is None:
        state = tx.states(branch, [name]).get(name)
    else:
        state = next((s for s in kept_states(tx, branch, name) if s.generation == generation), None)
    if state is None:
        what = "has no committed data yet" if generation is None else f"has no generation {generation}"
        raise NotFound(f"dataset {name} {what}")
    return state


def kept_states(tx: Tx, branch: str, name: str) -> Iterator[State]:
    """All states that are kept of a dataset, newest first."""
    before: int | None = None
    while some := tx.history(branch, name, STATES_A_TIME, before):
        yield from some
        before = some[-1].seq


def partitions(ctx: Context, branch: str, name: str, *, after: str | None, limit: int) -> PartitionsAnswer:
    """A page of the committed partitions, in key order; `next` is the key to go on after."""
    with ctx.store.read(ctx.namespace) as tx:
        state = state_of(tx, branch, name)
        entries = []
        for entry in tree.scan(tx, state.root, start=after or ""):
            if entry.key != after:
                entries.append(entry)
            if len(entries) > limit:
                break
        fragments = tx.fragments([e.fragment for e in entries])
        items: list[PartitionEntry] = [
            {
                "partition": e.key,
                "rows": e.content.rows,
                "fragment": e.fragment.hex(),
                "bytes": sum(f["size"] for f in fragments[e.fragment].files) if e.fragment in fragments else None,
            }
            for e in entries[:limit]
        ]
    return {"items": items, "next": items[-1]["partition"] if len(entries) > limit else None}


def history(ctx: Context, branch: str, name: str, *, before: int | None, limit: int) -> HistoryAnswer:
    """Generations, newest first; states that changed nothing that readers see are left out. `next`: to go on before."""
    with ctx.looking(branch) as (plan, facts):
        states, is_all = _some_generations(facts.tx, branch, name, before, limit * 4 + 1)
        if not states:
            one_of(plan, branch, name)
        firsts = {s.generation: s for s in states}  # the oldest state of each generation stays
        if not is_all:
            del firsts[states[-1].generation]  # it may go on
        shown = list(firsts.values())[:limit]
        took = work.of_states(facts.tx, branch, name, shown, states)
    items: list[GenerationEntry] = [
        {
            "generation": s.generation,
            "at": views.instant(s.at),
            "cause": s.cause,
            "revision": s.revision,
            "partitions": s.partitions,
            "rows": s.rows,
            "root": s.root.hex(),
            "work": took[s.seq],
        }
        for s in shown
    ]
    return {"items": items, "next": None if is_all and len(firsts) <= limit else shown[-1].seq}


def _some_generations(tx: Tx, branch: str, name: str, before: int | None, window: int) -> tuple[list[State], bool]:
    """States, newest first, with all of one generation among them; and whether they are all that there are."""
    states: list[State] = []
    while not states or states[0].generation == states[-1].generation:
        some = tx.history(branch, name, window, before)
        states += some
        if len(some) < window:
            return states, True
        before = some[-1].seq
    return states, False


def checks(ctx: Context, branch: str, name: str, generation: int | None = None) -> ChecksAnswer:
    """What is expected of a dataset's rows, and what was found in a generation (the newest by default). `rejected`: in
    rows that did not become one, because an expectation failed."""
    with ctx.looking(branch) as (plan, facts):
        tx, decision = facts.tx, one_of(plan, branch, name)
        found = facts.state(name)
        number = generation if generation is not None else found.generation if found else 0
        if generation is not None and (found is None or not 0 < generation <= found.generation):
            raise NotFound(f"dataset {name} has no generation {generation}")
        home = branch if found is None or found.branch == branch else state_of(tx, branch, name, number).branch
        key = record_key(home, name, number)
        memos = tx.memos([key])
        record = results_in(memos[key]) if key in memos else {}
    is_rejected = decision.status == "failed" and bool(decision.checks)
    return {
        "dataset": name,
        "state": decision.status,
        "generation": number,
        "items": [record[n] for n in sorted(record)],
        "rejected": list(decision.checks) if is_rejected and generation is None else [],
    }


def records(
    ctx: Context, branch: str, name: str, *, partition: str | None = None, generation: int | None = None
) -> Records:
    """The files of a committed generation, or of one partition in it. Raises NotFound."""
    with ctx.store.read(ctx.namespace) as tx:
        state = state_of(tx, branch, name, generation)
        if partition is None:
            entries = list(tree.scan(tx, state.root))
        else:
            entries = list(tree.lookup(tx, state.root, [partition]).values())
            if not entries:
                raise NotFound(f"dataset {name} has no partition {partition!r}")
        fragments = tx.fragments({e.fragment for e in entries})
        files = tuple(f["path"] for e in entries for f in fragments[e.fragment].files)
        rows = sum(e.content.rows for e in entries)
    return Records(state.schema, files, rows, state.generation)

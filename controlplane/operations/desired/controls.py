"""Requests of operators: refresh, retry, pause, resume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controlplane.core import tree
from controlplane.core.compile.nodes import Desired, Source, paused_by
from controlplane.core.errors import NotFound, TooManyRanges
from controlplane.core.model import forces
from controlplane.core.model.answers import PauseAnswer, RefreshAnswer, RetryAnswer
from controlplane.core.model.events import Event
from controlplane.core.model.forces import KeyRange
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.desired import holds, schema_pins
from controlplane.operations.inspect import tasks
from controlplane.operations.planning.pinned import is_pinned
from controlplane.operations.planning.snapshot import desired, targeted
from controlplane.operations.work import listing_requests, listings, long_polls
from controlplane.operations.work.listing_requests import ListingRequests
from controlplane.ports.store import Tx

BLUEPRINT = "paused: true in the blueprint"


def refresh(
    ctx: Context,
    branch: str,
    target: str | None,
    *,
    accept_deletes: bool = False,
    force: bool = False,
    partitions: KeyRange | None = None,
    schema: bool = False,
) -> RefreshAnswer:
    """List the sources of the target and of its upstream again. `force`: recompute the target, even
    where its results are known. `partitions`: of one dataset, recompute only these. `schema`: infer
    the columns of its sources again. Raises NothingPinned, NotFound, TooManyRanges."""
    how = {"accept_deletes": accept_deletes, "force": force, "schema": schema}
    return ask_refresh(ctx, branch, target, partitions=partitions, **how)[0]


def ask_refresh(
    ctx: Context,
    branch: str,
    target: str | None,
    *,
    accept_deletes: bool = False,
    force: bool = False,
    partitions: KeyRange | None = None,
    schema: bool = False,
) -> tuple[RefreshAnswer, ListingRequests]:
    """As `refresh`, and also returns the requested listings, for a caller that waits for them."""
    with ctx.begin() as tx:
        nodes = desired(tx, branch, namespace=ctx.namespace)
        chosen = targeted(nodes, target)
        schemas = schema_pins.take_back(tx, branch, nodes, chosen) if schema else []
        if schema_pins.raise_editions(ctx, tx, branch, nodes, schemas):
            nodes = desired(tx, branch, namespace=ctx.namespace)
        reads = listings.sources(nodes, {*chosen, *nodes.graph.upstream(chosen)})
        requests = listing_requests.request_listings(
            tx, branch, reads, accept_deletes=accept_deletes
        )
        refreshed = [] if is_pinned(tx, branch) else reads
        forced = _forced(nodes, chosen) if force or partitions else []
        if partitions:
            force_partitions(tx, branch, forced, partitions)
        elif forced:
            tx.blueprints.force(branch, forced)
        how: dict[str, object] = {
            "accept_deletes": accept_deletes,
            "force": force,
            "schema": schema,
        }
        if partitions:
            how["partitions"] = partitions._asdict()
        _note(ctx, tx, branch, "refresh", target, how)
    ctx.wake()
    answer: RefreshAnswer = {
        "target": target,
        "listings": len({node.listing for node in refreshed}),
        "sources": sorted(node.dataset for node in refreshed if ctx.sees(node.dataset)),
        "forced": forced,
        "schemas": schemas,
    }
    return answer, requests


def _forced(nodes: Desired, chosen: list[str]) -> list[str]:
    """Those of the chosen that are made by tasks, under the names of their makers."""
    makers = {node.maker for d in chosen if (node := nodes.nodes[d]).has_rows}
    return [d for d in nodes.order if d in makers]


def force_partitions(tx: Tx, branch: str, forced: Sequence[str], within: KeyRange) -> None:
    """Have these partitions of one dataset computed again, and no others. Raises NotFound,
    TooManyRanges."""
    if len(forced) != 1:
        raise NotFound("a range of partitions is of one dataset with rows: name it as target")
    [dataset] = forced
    state = tx.states.find(branch, dataset)
    root = state.root if state else tree.EMPTY_ROOT
    stop = None if within.last is None else tree.after(within.last)
    # An output without partitions has the empty key
    start = within.first or tree.after("")
    if next(tree.scan(tx.nodes, root, start, stop), None) is None:
        raise NotFound(f"{dataset} has no partition in this range in branch {branch}")
    last = tree.last(tx.nodes, root)
    assert last is not None
    number = tx.blueprints.forces(branch).get(dataset, 0)
    if len(forces.chain(tx.blueprints.forced_ranges(), number)) >= forces.MOST_RANGES:
        raise TooManyRanges(
            f"{forces.MOST_RANGES} ranges of {dataset} were computed again one by one:"
            f" compute it as a whole once (headgate refresh {dataset} --force)"
        )
    tx.blueprints.force_range(branch, dataset, start, within.last or last.key)


def retry(
    ctx: Context, branch: str, target: str | None, *, among: frozenset[bytes] | None = None
) -> RetryAnswer:
    """Give failed tasks of the target and of its upstream a fresh budget.

    `among`: only of those datasets that still want one of these tasks, and no listings.
    """
    with ctx.begin() as tx:
        nodes = desired(tx, branch, namespace=ctx.namespace)
        chosen = targeted(nodes, target)
        everything = {*chosen, *nodes.graph.upstream(chosen)}
        retried = [d for d in sorted(everything) if among is None or among & _failed(tx, branch, d)]
        count = tx.queue.retry(branch, retried)
        is_listed = among is None and not is_pinned(tx, branch)
        reads = listings.sources(nodes, everything) if is_listed else []
        failed = [n for n in reads if _failed_listing(tx, n)]
        listings.request(tx, failed, is_awaited=True)
        _note(ctx, tx, branch, "retry", target, {"tasks": count})
    ctx.wake()
    return {"target": target, "retried": count, "listings": len(failed)}


def retry_partition(ctx: Context, branch: str, dataset: str, partition: str) -> RetryAnswer:
    """Retry the failed tasks of one partition of a dataset or copy, and nothing upstream of it. An
    empty name means all tasks of a dataset without partitions. Raises NotFound."""
    with ctx.begin() as tx:
        nodes = desired(tx, branch, namespace=ctx.namespace)
        (name,) = targeted(nodes, dataset)
        node = nodes.nodes[name]
        partition_tasks = tasks.of_partition(tx, branch, node, partition)
        if partition and not partition_tasks:
            _require_partition(tx, branch, name, partition)
        demanding = {name, node.maker}
        count = tx.queue.retry(branch, demanding, [task.key for task in partition_tasks])
        _note(ctx, tx, branch, "retry", dataset, {"tasks": count, "partition": partition})
    ctx.wake()
    return {"target": dataset, "partition": partition, "retried": count, "listings": 0}


def _require_partition(tx: Tx, branch: str, dataset: str, partition: str) -> None:
    """Raise NotFound for a partition that is neither committed nor requested."""
    state = tx.states.find(branch, dataset)
    if state is None or partition not in tree.lookup(tx.nodes, state.root, [partition]):
        raise NotFound(
            f"{dataset} has no partition {partition[:200]!r} in branch {branch}, and no task for one of this name"
            " (one task, named by the first of them, makes all partitions of equal rows)"
        )


def failed(ctx: Context, branch: str, target: str) -> frozenset[bytes]:
    """Keys of the failed tasks that the target or its upstream wants."""
    with ctx.read() as tx:
        nodes = desired(tx, branch, namespace=ctx.namespace)
        chosen = targeted(nodes, target)
        return frozenset().union(
            *(_failed(tx, branch, d) for d in {*chosen, *nodes.graph.upstream(chosen)})
        )


def _failed(tx: Tx, branch: str, dataset: str) -> frozenset[bytes]:
    return frozenset(
        key for key, task in tx.queue.demands(branch, dataset).items() if task.state == "failed"
    )


def _failed_listing(tx: Tx, node: Source) -> bool:
    listing = tx.listings.get([node.listing]).get(node.listing)
    return listing is not None and listing.error is not None


def pause(ctx: Context, branch: str, target: str) -> PauseAnswer:
    """Stop computing the target. Its published data stays readable."""
    with ctx.begin() as tx:
        nodes = desired(tx, branch, namespace=ctx.namespace)
        chosen = {*targeted(nodes, target), *(d for d in nodes.order if target in paused_by(d))}
        before = sorted(tx.blueprints.paused(branch))
        tx.blueprints.set_paused(branch, target, True)
        for dataset in sorted(chosen):
            long_polls.withdraw(tx, branch, listings.demand_of(dataset))
            tx.queue.drop_demands(branch, dataset)
        tx.states.drop_unfinished(branch, chosen)
        _note(ctx, tx, branch, "pause", target, {"before": before})
    ctx.wake()
    return {"target": target, "paused": True}


def resume(ctx: Context, branch: str, target: str) -> PauseAnswer:
    """Lift the pause of the target and of each dataset in it, and release its rollback holds. The
    answer names datasets that remain paused, and by what: a pause of the dataflow, or `paused:
    true` in the blueprint."""
    with ctx.begin() as tx:
        nodes = desired(tx, branch, namespace=ctx.namespace)
        chosen, before = targeted(nodes, target), tx.blueprints.paused(branch)
        lifted = {name for name in before if target in (name, name.partition(".")[0])}
        for name in sorted(lifted):
            tx.blueprints.set_paused(branch, name, False)
        held = {d: by for d in chosen if (by := _held_by(nodes, d, before - lifted))}
        meant = [d for d in nodes.order if paused_by(d) & {target, *chosen}]
        ended = holds.end(tx, branch, nodes, meant, ctx.namespace)
        details = {"released": ended.released} if ended.released else {}
        _note(ctx, tx, branch, "resume", target, {"before": sorted(before), **details})
    ctx.wake()
    answer: PauseAnswer = {"target": target, "paused": len(held) == len(chosen)}
    if held:
        answer["still_paused"] = list(held)
        answer["by"] = sorted(set(held.values()))
    if ended.released:
        answer["released"] = ended.released
    if ended.still_held:
        answer["still_held"] = ended.still_held
    return answer


def _held_by(nodes: Desired, dataset: str, paused: frozenset[str]) -> str | None:
    wider = min(paused_by(dataset) & paused, default=None)
    return wider or (BLUEPRINT if nodes.nodes[dataset].component.paused else None)


def _note(
    ctx: Context, tx: Tx, branch: str, action: str, target: str | None, after: Mapping[str, object]
) -> None:
    note_change(ctx, tx, action, target or "*", after=after, branch=branch)
    tx.events.put(
        [Event(f"operator.{action}", target or "", 1, {"actor": ctx.actor}, branch=branch)]
    )

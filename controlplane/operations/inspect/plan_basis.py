"""What a plan rests on, as a value that can be kept and compared: revisions, listings, datasets,
and the work itself.

Two plans with equal bases demand the same tasks: planning is a function of these facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from controlplane.core.compile.nodes import Source
from controlplane.core.errors import PlanMoved
from controlplane.core.model.answers import DatasetBasis, PlanBasis, PlanItem
from controlplane.core.model.revisions import Revision
from controlplane.core.plan import Plan
from controlplane.operations.context import Context
from controlplane.operations.inspect import json_views
from controlplane.operations.planning.snapshot import StoreSnapshot
from dataplane.contract.encoding import digest

SHOWN = 12  # digits of a root
NOTHING = "nothing"
T = TypeVar("T")


def of_plan(
    ctx: Context,
    plan: Plan,
    facts: StoreSnapshot,
    live: Mapping[str, Revision],
    flows: Sequence[str],
    texts: Sequence[Mapping[str, object]] = (),
    looked: str = "",
) -> PlanBasis:
    """As far as the actor sees it. `live`: revisions as they are stored. `flows`: whose plan it is;
    none stands for all. `texts`: the blueprints that it is about, if they are not those that are
    stored. `looked`: the id under which its sources were listed."""
    plan = ctx.visible(plan)
    datasets = [decision.dataset for decision in plan.decisions]
    names = sorted({*flows, *(dataset.partition(".")[0] for dataset in datasets)})
    return {
        "dataflows": sorted(flows),
        "blueprints": digest("blueprints/1", texts=list(texts)).hex(),
        "revisions": {name: live[name].number if name in live else 0 for name in names},
        "sources": {
            d: _listing_root(facts, node)
            for d in datasets
            if (node := facts.desired.nodes[d]).is_source
        },
        "datasets": {d: _dataset(facts, d) for d in datasets if facts.desired.nodes[d].has_rows},
        "work": _work(json_views.items(ctx, plan.items, facts)),
        "looked": looked,
    }


def _listing_root(facts: StoreSnapshot, node: Source) -> str | None:
    listing = facts.listing(node.listing)
    return None if listing is None or listing.root is None else listing.root.hex()


def _dataset(facts: StoreSnapshot, name: str) -> DatasetBasis:
    state = facts.state(name)
    if state is None:
        return {"generation": 0, "commit": 0, "root": None}
    return {"generation": state.generation, "commit": state.seq, "root": state.root.hex()}


def _work(items: Sequence[PlanItem]) -> dict[str, str]:
    """A digest of the work on each dataset."""
    by_dataset: dict[str, list[PlanItem]] = {}
    for item in items:
        by_dataset.setdefault(item["dataset"], []).append(item)
    return {dataset: digest("work/1", items=some).hex() for dataset, some in by_dataset.items()}


# --- differences ------------------------------------------------------------------------------------


def check(planned: PlanBasis, current: PlanBasis) -> None:
    """Raises PlanMoved with all that is not as it was when the plan was made."""
    moved = list(_moved(planned, current))
    if moved:
        raise PlanMoved(moved)


def _moved(planned: PlanBasis, current: PlanBasis) -> Iterator[str]:
    if planned["blueprints"] != current["blueprints"]:
        yield "the blueprints are not the planned ones"
    yield from _revisions(planned["revisions"], current["revisions"])
    sources = planned["sources"], current["sources"]
    datasets = planned["datasets"], current["datasets"]
    yield from _moved_parts("source {} went from listing {} to {}", *sources, _short)
    yield from _moved_parts("dataset {} went from {} to {}", *datasets, _state)
    as_now: PlanBasis = {**current, "dataflows": planned["dataflows"], "work": planned["work"]}
    as_now["looked"] = planned.get("looked", "")
    if planned == as_now:  # else the work moved with the facts
        # Pauses, checks, the time, or the known results
        work = planned["work"], current["work"]
        yield from _moved_parts("the work on {} went from {} to {}", *work, _short)


def _revisions(planned: Mapping[str, int], current: Mapping[str, int]) -> Iterator[str]:
    for name in _differing(planned, current):
        before, now = planned.get(name, 0), current.get(name, 0)
        yield f"dataflow {name} went from {_revision(before)} to {_revision(now)}"


def _revision(number: int) -> str:
    return f"revision {number}" if number else "not being there"


def _moved_parts(
    sentence: str,
    planned: Mapping[str, T],
    current: Mapping[str, T],
    shown: Callable[[T | None], str],
) -> Iterator[str]:
    """A sentence for each name whose parts differ: its name, planned part and present part."""
    for name in _differing(planned, current):
        yield sentence.format(name, shown(planned.get(name)), shown(current.get(name)))


def _state(basis: DatasetBasis | None) -> str:
    if basis is None or not basis["commit"]:
        return NOTHING
    return (
        f"generation {basis['generation']} (root {_short(basis['root'])}, commit {basis['commit']})"
    )


def _differing(planned: Mapping[str, object], current: Mapping[str, object]) -> list[str]:
    return [name for name in sorted({*planned, *current}) if planned.get(name) != current.get(name)]


def _short(root: str | None) -> str:
    return NOTHING if root is None else root[:SHOWN]
